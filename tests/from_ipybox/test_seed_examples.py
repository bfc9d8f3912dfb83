"""The examples of ipybox's documentation, word for word but for the name of the package.

`npx`, `uvx` and `srt` are stand-ins on the search path that serve what the named servers would. Examples that need
IPython are in `test_code_executor`, those of sandbox settings in `test_sandbox_config`.
"""

from __future__ import annotations

import ast
import asyncio
import os
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from apps import SERVERS

pytestmark = pytest.mark.anyio

IMPORTS = """
import asyncio
import tempfile
from pathlib import Path
from ipybox import ApprovalRequest, CodeExecutionChunk, CodeExecutionError, CodeExecutionResult, CodeExecutor
from ipybox import generate_mcp_sources
from ipybox.kernel_mgr.client import ExecutionResult, KernelClient
from ipybox.kernel_mgr.server import KernelGateway
from ipybox.tool_exec.approval.client import ApprovalClient
from ipybox.tool_exec.client import ToolRunner
from ipybox.tool_exec.server import ToolServer
"""


@pytest.fixture(autouse=True)
def servers(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`npx`, `uvx` and `srt`."""
    folder = project / "bin"
    folder.mkdir()
    for name in ("npx", "uvx", "srt"):
        program = folder / name
        program.write_text(f"#!/bin/sh\nexec {sys.executable} {SERVERS / 'stand_ins.py'}\n", encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("BRAVE_API_KEY", "k3y")


def here(text: str) -> str:
    return dedent(text).replace("from ipybox", "from moonpool.ipybox")


async def run_example(text: str, **scope: Any) -> dict[str, Any]:
    """Run statements, some of which await."""
    code = compile(here(IMPORTS) + dedent(text), "<example>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await eval(code, scope)  # noqa: S307  our own text
    return scope


BRAVE = """
brave_mcp_params = {
    "command": "npx",
    "args": ["-y", "@brave/brave-search-mcp-server", "--transport", "stdio"],
    "env": {"BRAVE_API_KEY": "${BRAVE_API_KEY}"},
}

await generate_mcp_sources(
    server_name="brave_search",
    server_params=brave_mcp_params,
    root_dir=Path("mcptools"),
)
"""


@pytest.mark.req("I-001", "I-014", "I-025")
async def test_the_quickstart(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    quickstart = '''
    import asyncio
    from pathlib import Path

    from ipybox import ApprovalRequest, CodeExecutionResult, CodeExecutor, generate_mcp_sources
    from ipybox.utils import arun

    SERVER_PARAMS = {
        "command": "npx",
        "args": [
            "-y",
            "@brave/brave-search-mcp-server",
            "--transport",
            "stdio",
        ],
        "env": {
            "BRAVE_API_KEY": "${BRAVE_API_KEY}",
        },
    }

    CODE = """
    from mcptools.brave_search.brave_image_search import Params, Result, run

    result: Result = run(Params(query="neural topic models", count=3))

    for image in result.items:
        print(f"- [{image.title}]({image.properties.url})")
    """


    async def main():
        # Generate a Python tool API
        # for the Brave Search MCP server
        await generate_mcp_sources(
            server_name="brave_search",
            server_params=SERVER_PARAMS,
            root_dir=Path("mcptools"),
        )

        # Launch ipybox code executor
        async with CodeExecutor() as executor:
            # Execute code that calls an MCP tool
            # programmatically in an IPython kernel
            async for item in executor.stream(CODE):
                match item:
                    # Handle approval requests
                    case ApprovalRequest() as req:
                        # Prompt user to approve or reject MCP tool call
                        prompt = f"Tool call: [{req}]\\nApprove? (Y/n): "
                        if await arun(input, prompt) in ["y", ""]:
                            await req.accept()
                        else:
                            await req.reject()
                    # Handle final execution result
                    case CodeExecutionResult(text=text):
                        print(text)
    '''
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda prompt: asked.append(prompt) or "y")
    scope: dict[str, Any] = {}
    exec(here(quickstart), scope)  # noqa: S102  our own text
    await scope["main"]()
    assert asked == [
        "Tool call: [brave_search.brave_image_search(query='neural topic models', count=3)]\nApprove? (Y/n): "
    ]
    assert capsys.readouterr().out.splitlines() == [
        f"- [neural topic models {number}](https://images.example/{number})" for number in range(3)
    ]


async def test_code_execution_and_approval() -> None:
    await run_example(BRAVE)
    await run_example(
        '''
        async with CodeExecutor() as executor:
            result = await executor.execute("print('hello world')")
            assert result.text == "hello world"

        code = """
        from mcptools.brave_search.brave_image_search import Params, Result, run

        result: Result = run(Params(query="neural topic models", count=3))
        print(f"num results = {len(result.items)}")
        """
        async with CodeExecutor() as executor:
            async for item in executor.stream(code):
                match item:
                    case ApprovalRequest():
                        assert item.tool_name == "brave_image_search"
                        assert item.tool_args["query"] == "neural topic models"
                        assert item.tool_args["count"] == 3
                        await item.accept()
                    case CodeExecutionResult():
                        assert item.text == "num results = 3"
        '''
    )


async def test_chunks_timeouts_environment_and_reset() -> None:
    await run_example(
        '''
        code = """
        from time import sleep
        print("chunk 1")
        sleep(0.5)
        print("chunk 2")
        """
        async with CodeExecutor() as executor:
            async for item in executor.stream(code, chunks=True):
                match item:
                    case CodeExecutionChunk():
                        assert item.text.strip() in ["chunk 1", "chunk 2"]
                    case CodeExecutionResult():
                        assert item.text == "chunk 1\\nchunk 2"

        # set custom approval timeout, default is no timeout
        async with CodeExecutor(approval_timeout=10) as executor:
            # set custom execution timeout, default is no timeout
            async for item in executor.stream("...", timeout=10):
                ...

        async with CodeExecutor(kernel_env={"TEST_VAR": "test_val"}) as executor:
            result = await executor.execute("import os; print(os.environ['TEST_VAR'])")
            assert result.text == "test_val"

        async with CodeExecutor() as executor:
            await executor.execute("x = 42")
            result = await executor.execute("print(x)")
            assert result.text == "42"

            await executor.reset()

            code = """
        try:
            print(x)
        except NameError:
            print("x not defined")
        """
            result = await executor.execute(code)
            assert result.text == "x not defined"
        '''
    )


@pytest.mark.req("I-076", "I-077")
async def test_a_server_in_a_sandbox_of_its_own(project: Path) -> None:
    (project / "README.md").write_text("", encoding="utf-8")
    await run_example(
        '''
        server_params = {
            "command": "srt",
            "args": [
                "--settings",
                "examples/sandbox-mcp.json",
                "npx",
                "-y",
                "@modelcontextprotocol/server-filesystem",
                ".",
            ],
        }
        await generate_mcp_sources("filesystem", server_params, Path("mcptools"))

        list_dir_code = """
        from mcptools.filesystem.list_directory import run, Params
        result = run(Params(path="."))
        print(result.content)
        """

        read_env_code = """
        from mcptools.filesystem.read_file import run, Params
        result = run(Params(path=".env"))
        print(result.content)
        """

        async with CodeExecutor(sandbox=True) as executor:
            # allowed by MCP server and sandbox
            result = await executor.execute(list_dir_code)
            assert "README.md" in result.text

            try:
                # allowed by MCP server but blocked by sandbox
                result = await executor.execute(read_env_code)
                assert False, "Read access to .env not blocked"
            except CodeExecutionError as e:
                assert "operation not permitted" in str(e)
        '''
    )


async def test_the_examples_of_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    await run_example(
        '''
        # Generate a Python tool API for the fetch MCP server
        server_params = {"command": "uvx", "args": ["mcp-server-fetch"]}
        await generate_mcp_sources("fetch", server_params, Path("mcptools"))

        # Execute code that calls the generated API
        code = """
        from mcptools.fetch import fetch

        result = fetch.run(fetch.Params(url="https://example.com"))
        print(result)
        """

        async with CodeExecutor() as executor:
            async for item in executor.stream(code):
                match item:
                    case ApprovalRequest():
                        print(f"Tool call: {item}")
                        await item.accept()
                    case CodeExecutionResult():
                        print(item.text)

        async def on_approval_request(request: ApprovalRequest):
            print(f"Approval request: {request}")
            if request.tool_name == "dangerous_tool":
                await request.reject()
            else:
                await request.accept()

        async with ToolServer(port=free, approval_required=True) as server:
            async with ApprovalClient(callback=on_approval_request, port=free):
                runner = ToolRunner(
                    server_name="fetch",
                    server_params={"command": "uvx", "args": ["mcp-server-fetch"]},
                    port=free,
                )
                result = await runner.run("fetch", {"url": "https://example.com"})
                print(result)

        async with KernelGateway(host="localhost", port=8888) as gateway:
            async with KernelClient(host="localhost", port=8888) as client:
                # Simple execution
                result = await client.execute("print('hello')")
                print(result.text)

                # Streaming execution
                async for item in client.stream("print('hello')"):
                    match item:
                        case str():
                            print(f"Chunk: {item}")
                        case ExecutionResult():
                            print(f"Result: {item}")
        ''',
        free=await free_port(),
    )
    page = "the page https://example.com"
    assert capsys.readouterr().out.splitlines() == [
        "Tool call: fetch.fetch(url='https://example.com')",
        page,
        "Approval request: fetch.fetch(url='https://example.com')",
        page,
        "hello",
        "Chunk: hello",
        "",
        "Result: ExecutionResult(text='hello', images=[])",
    ]


async def free_port() -> int:
    """In place of the default port, which other tests may use at the same time."""
    from moonpool.ipybox.utils import find_free_port

    return await asyncio.to_thread(find_free_port)


SEARCH = """
import json
from mcptools.github import search_repositories, list_commits

# Search for torvalds' repositories sorted by stars (descending)
repos_result = search_repositories.run(search_repositories.Params(
    query="user:torvalds",
    sort=search_repositories.Sort.stars,
    order=search_repositories.Order.desc,
    perPage=10,
    minimal_output=False
))

repos_data = json.loads(repos_result)
print(f"Found {repos_data['total_count']} repos")

# Get top 3 repos
top_repos = repos_data['items'][:3]
for repo in top_repos:
    print(f"- {repo['name']}: {repo['stargazers_count']} stars")
"""
COMMITS = """
# Get latest 5 commits for each of the top 3 repos
for repo in top_repos:
    repo_name = repo['name']
    stars = repo['stargazers_count']

    # Get commits
    commits_result = list_commits.run(list_commits.Params(
        owner="torvalds",
        repo=repo_name,
        perPage=5
    ))

    commits_data = json.loads(commits_result)

    for i, commit in enumerate(commits_data[:5], 1):
        sha = commit['sha']
        short_sha = sha[:7]
        message = commit['commit']['message'].split('\\n')[0]  # First line only
        url = commit['html_url']
        print(f"{i}. {message} {url}")
"""


@pytest.mark.req("I-015", "I-017", "I-105")
async def test_the_code_actions_of_the_plugin() -> None:
    scope = await run_example("""
        github_mcp_params = {"command": "uvx", "args": ["github-mcp-server"]}
        await generate_mcp_sources("github", github_mcp_params, Path("mcptools"))
        executor = CodeExecutor()
        await executor.start()
    """)
    executor = scope["executor"]
    try:
        found = (await executor.execute(SEARCH)).text
        assert found.splitlines() == [
            "Found 10 repos",
            "- repo0: 1000 stars",
            "- repo1: 999 stars",
            "- repo2: 998 stars",
        ]
        lines = (await executor.execute(COMMITS)).text.splitlines()
        assert len(lines) == 15
        assert lines[:2] == ["1. change 0 https://h/0", "2. change 1 https://h/1"]
    finally:
        await executor.stop()
