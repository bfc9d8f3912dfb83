"""The examples of ipybox's documentation, word for word but for the name of the package.

`npx`, `uvx` and `srt` are stand-ins on the search path that serve what the named servers would. Examples that need
IPython run in the environment `data`; what the plugin's skill teaches is in `tests/plugin`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import moonpool
from apps import DATA
from from_ipybox.examples import here, run_example, stand_ins
from moonpool.ipybox import CodeExecutor
from network.fake_internet import NEEDS_NAMESPACES, printed_by
from upstreams.peers import HttpServer

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def servers(project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("PATH", stand_ins(tmp_path_factory.mktemp("tools") / "bin"))  # not where code may write
    monkeypatch.setenv("BRAVE_API_KEY", "k3y")


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

        code = """
        from mcptools.brave_search.brave_image_search import Params, Result, run

        # Params validates input
        params = Params(query="neural topic models", count=3)

        # run() calls the MCP tool and returns a Result (or str for untyped tools)
        result: Result = run(params)

        for image in result.items:
            print(image.title)
        """
        async with CodeExecutor() as executor:
            result = await executor.execute(code)
            assert result.text.splitlines() == [f"neural topic models {n}" for n in range(3)]
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
            import os

            result = await executor.execute("import os; print(os.getcwd())")
            assert result.text == os.getcwd()
        '''
    )


@pytest.fixture
def ipython(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that is indented as a whole needs it, as do plots; `requests` is in its environment, too."""
    monkeypatch.delenv("MOONPOOL_ENVIRONMENT")


@pytest.mark.slow  # builds the environment data
@pytest.mark.timeout(300)
@pytest.mark.req("I-036", "I-044", "I-073", "I-075", "I-087", "X-09")
@pytest.mark.usefixtures("ipython")
@NEEDS_NAMESPACES
async def test_reset_plots_and_sandboxes(project: Path) -> None:
    await run_example(
        '''
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

        code = """
        import matplotlib.pyplot as plt
        plt.plot([1, 2, 3], [1, 4, 9])
        plt.show()
        """
        with tempfile.TemporaryDirectory() as images_dir:
            async with CodeExecutor(images_dir=Path(images_dir)) as executor:
                result = await executor.execute(code)
                assert len(result.images) == 1
                assert result.images[0].exists()
                assert result.images[0].suffix == ".png"

        async with CodeExecutor(sandbox=True) as executor:
            result = await executor.execute("print('hello world')")
            assert result.text == "hello world"

            code = """
            import requests
            try:
                requests.get('https://example.org')
            except Exception as e:
                print(e)
            """

            # Default sandbox config blocks internet access
            result = await executor.execute(code)
            assert "Failed to resolve 'example.org'" in result.text
        '''
    )
    program = Path(__file__).with_name("example_domain.py")
    by_example, by_server = await asyncio.to_thread(printed_by, program, project, DATA)
    assert by_example == by_server == ["example.org 200", "www.example.com 403", "sub.example.org 403"]


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

    print(f"\\n{'='*60}")
    print(f"📦 {repo_name} | ⭐ {stars:,} stars")
    print(f"{'='*60}")

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

        print(f"\\n{i}. {message}")
        print(f"   🔗 {url}")
"""
CHAINED = """
import json
from mcptools.github import search_repositories, list_commits

# Get Torvalds' repos sorted by stars
repos_result = search_repositories.run_parsed(
    search_repositories.Params(
        query="user:torvalds",
        sort=search_repositories.Sort.stars,
        order=search_repositories.Order.desc,
        perPage=3
    )
)

# Get top 3 repos
top_repos = repos_result.repositories[:3]
print(f"Found {len(top_repos)} repos\\n")

for repo in top_repos:
    print(f"📦 {repo.name} ⭐ {repo.stargazers_count:,} stars")
    print("-" * 60)

    # Get latest 5 commits
    commits_raw = list_commits.run(
        list_commits.Params(
            owner="torvalds",
            repo=repo.name,
            perPage=5
        )
    )

    # Parse the commits JSON
    commits = json.loads(commits_raw)

    for commit in commits[:5]:
        sha = commit["sha"][:7]
        message = commit["commit"]["message"].split("\\n")[0]
        url = commit["html_url"]
        print(f"  {sha}: {message}")
        print(f"         {url}")

    print()
"""
SAVED = """
from gentools.github.commits_of_top_repos import run

results = run(username="torvalds", top_n_repos=3, last_n_commits=5)

for repo in results:
    print(f"\\n## {repo.name} ({repo.stars:,} ⭐)")
    print("-" * 60)
    for commit in repo.commits:
        print(f"• {commit.message}")
        print(f"  {commit.url}")
"""
WRITTEN = {  # by the agent of the example, which does not show it
    "mcpparse/github/search_repositories.py": """
import json
from types import SimpleNamespace
from mcptools.github.search_repositories import run

def run_parsed(params):
    items = json.loads(run(params))["items"]
    return SimpleNamespace(repositories=[SimpleNamespace(**item) for item in items])
""",
    "gentools/github/commits_of_top_repos/__init__.py": "from .api import run",
    "gentools/github/commits_of_top_repos/api.py": """
from . import impl

def run(username, top_n_repos, last_n_commits):
    return impl.run(username, top_n_repos, last_n_commits)
""",
    "gentools/github/commits_of_top_repos/impl.py": """
import json
from types import SimpleNamespace
from mcptools.github import search_repositories, list_commits

def run(username, top_n_repos, last_n_commits):
    found = search_repositories.run_parsed(search_repositories.Params(query=f"user:{username}")).repositories
    return [
        SimpleNamespace(name=one.name, stars=one.stargazers_count, commits=commits_of(username, one, last_n_commits))
        for one in found[:top_n_repos]
    ]

def commits_of(owner, repo, count):
    commits = json.loads(list_commits.run(list_commits.Params(owner=owner, repo=repo.name, perPage=count)))
    return [
        SimpleNamespace(message=one["commit"]["message"].partition("\\n")[0], url=one["html_url"]) for one in commits
    ]
""",
}


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpServer]:
    """GitHub's MCP server as the examples reach it: over HTTP, with a key of the environment in a header."""
    monkeypatch.setenv("GITHUB_API_KEY", "gh-k3y-4711")
    monkeypatch.setenv("WANTED_AUTHORIZATION", "Bearer gh-k3y-4711")
    server = HttpServer("github_replica.py")
    yield server
    server.kill()


@pytest.mark.req("I-015", "I-017", "I-019", "I-020", "I-100", "I-102", "I-104", "I-105")
async def test_a_server_over_http_and_the_code_actions_of_the_plugin(project: Path, github: HttpServer) -> None:
    registering = """
        github_mcp_params = {
            "url": "https://api.githubcopilot.com/mcp/",
            "headers": {"Authorization": "Bearer ${GITHUB_API_KEY}"},
        }

        await generate_mcp_sources(
            server_name="github",
            server_params=github_mcp_params,
            root_dir=Path("mcptools"),
        )
    """.replace("https://api.githubcopilot.com/mcp/", github.url("/mcp"))
    with pytest.raises(moonpool.MoonpoolError, match="refused our credential"):
        await run_example(registering.replace("Bearer", "Basic"))
    await run_example(registering)
    for name, text in WRITTEN.items():
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    names = ("linux", "subsurface", "uemacs")
    async with CodeExecutor() as executor:
        said = [((await executor.execute(code)).text or "").splitlines() for code in (SEARCH, COMMITS, CHAINED, SAVED)]
    searched, listed, chained, saved = said
    assert searched == ["Found 4 repos", "- linux: 200000 stars", "- subsurface: 2000 stars", "- uemacs: 1500 stars"]
    assert [line for line in listed if "📦" in line] == [
        "📦 linux | ⭐ 200,000 stars",
        "📦 subsurface | ⭐ 2,000 stars",
        "📦 uemacs | ⭐ 1,500 stars",
    ]
    assert [line for line in listed if ". " in line] == [
        f"{n + 1}. {one}: change {n}" for one in names for n in range(5)
    ]
    assert chained[:5] == [
        "Found 3 repos",
        "",
        "📦 linux ⭐ 200,000 stars",
        "-" * 60,
        "  0000000: linux: change 0",
    ]
    assert [line for line in saved if "•" in line] == [f"• {one}: change {n}" for one in names for n in range(5)]
