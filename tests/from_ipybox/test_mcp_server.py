"""`moonpool mcp --profile ipybox` over real stdio, with the official client."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters

from apps import DATA, SERVERS
from commands.process import SCRIPT

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    Say = Callable[[str], types.ElicitResult]

pytestmark = pytest.mark.anyio
ECHO: dict[str, Any] = {"command": sys.executable, "args": [str(SERVERS / "echo.py")]}
CALL = "from mcptools.echo import echo\nprint(echo.run(echo.Params(word='hello')))"
NAMES = ["register_mcp_server", "execute_ipython_cell", "install_package", "reset"]


def yes(_: str) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"allow": True})


def no(_: str) -> types.ElicitResult:
    return types.ElicitResult(action="decline")


@asynccontextmanager
async def profile(
    workspace: Path, *options: str, say: Say | None = yes, mode: str = "auto", **environ: str
) -> AsyncGenerator[tuple[Client, list[str]]]:
    """A client of a server in `workspace`, and what its user was asked. `say` None: it cannot ask."""
    asked: list[str] = []

    async def elicit(_: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        assert say is not None
        return say(params.message)

    command = StdioServerParameters(
        command=str(SCRIPT),
        args=["mcp", "--profile", "ipybox", "--workspace", str(workspace), *options],
        env={"MOONPOOL_DATA_DIR": str(DATA), "MOONPOOL_ENVIRONMENT": "base", "OUTER": "outer value", **environ},
    )
    with anyio.fail_after(120):
        async with Client(command, mode=mode, elicitation_callback=elicit if say else None) as client:
            yield client, asked


async def text(client: Client, name: str, failed: bool = False, **arguments: Any) -> str:
    """The text of an answer."""
    result = await client.call_tool(name, arguments)
    assert result.is_error is failed, result.content
    assert all(block.type == "text" for block in result.content)
    return "\n".join(block.text for block in result.content if block.type == "text")


async def cell(client: Client, code: str, failed: bool = False, **more: Any) -> str:
    return await text(client, "execute_ipython_cell", failed, code=code, **more)


@pytest.mark.req("I-080", "I-081", "I-082", "I-083", "I-085", "I-086", "I-089", "I-090", "I-100")
@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.slow)])
async def test_an_agent_registers_calls_saves_and_resets(tmp_path: Path, mode: str) -> None:
    work = tmp_path / "made" / "work"
    work.mkdir(parents=True)
    (work / ".env").write_text("WORD=from-the-file\nKERNEL_ENV_TOKEN=kernel\n", encoding="utf-8")
    async with profile(work, mode=mode) as (client, asked):
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == NAMES
        execute = listed[1].input_schema["properties"]
        assert (execute["timeout"]["default"], execute["max_output_chars"]["default"]) == (120, 5000)

        # State, also before a server is registered; the kernel has its own variables only
        assert await cell(client, "import os\nx = 41\nprint('hello')") == "hello"
        told = await cell(client, "print(x + 1, os.environ['TOKEN'], 'OUTER' in os.environ, 'WORD' in os.environ)")
        assert told == "42 kernel False False"

        params = {**ECHO, "env": {"ECHO_WORD": "${WORD}"}}
        names = (await text(client, "register_mcp_server", server_name="echo", server_params=params)).split("\n")
        assert set(names) == {path.stem for path in (work / "mcptools" / "echo").glob("*.py")} - {"__init__"}
        assert "${WORD}" in asked[0]
        assert "register the MCP server echo: its command runs on this machine" in asked[0]
        assert await cell(client, f"{CALL}\nprint(x)") == '{"word": "hello"}\n41'
        assert "wants to call echo.echo" in asked[1]

        # Saved code and an output parser, written on the host while the kernel lives
        saved, parser = work / "gentools" / "demo" / "shout", work / "mcpparse" / "echo"
        saved.mkdir(parents=True)
        parser.mkdir(parents=True)
        (saved / "api.py").write_text("from .impl import shout as run\n\n__all__ = [\"run\"]\n")
        (saved / "impl.py").write_text("def shout(word):\n    return word.upper()\n")
        (saved / "__init__.py").write_text("from .api import run\n")
        (parser / "echo.py").write_text(
            "from mcptools.echo.echo import Params, run\n\n\ndef run_parsed(params: Params) -> str:\n"
            "    return 'parsed ' + str(run(params))\n"
        )
        assert await cell(client, "from gentools.demo.shout import run\nprint(run('hi'))") == "HI"
        assert await cell(client, "print(echo.run_parsed(echo.Params(word='w')))") == 'parsed {"word": "w"}'

        # A new kernel knows all but variables; registering again leaves the parser alone
        assert await text(client, "reset") == ""
        assert "NameError" in await cell(client, "x", failed=True)
        await text(client, "register_mcp_server", server_name="echo", server_params=params)
        code = "from mcptools.echo.echo import Params, run_parsed\nprint(run_parsed(Params(word='again')))"
        assert await cell(client, code) == 'parsed {"word": "again"}'
        assert (parser / "echo.py").exists()

        long = await cell(client, "print('a' * 4000 + 'b' * 4000)", max_output_chars=1000)
        assert len(long) <= 1000
        assert "characters left out" in long

    # What was registered is there for the next process; nobody is asked again
    async with profile(work, say=yes, mode=mode) as (client, asked):
        assert await cell(client, CALL) == '{"word": "hello"}'
        assert len(asked) == 1
