"""Group `mcp`: `execute_code` of `moonpool mcp` over stdio, beside fastmcp's CodeMode over stdio.

Both stand in front of the same echo server and are asked by the same client. CodeMode runs a subset of Python in Monty,
an interpreter without processes, files or packages; ours is CPython behind a wall. The pace leaves our pool time to
fill, as a model's own thinking does.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.groups.toolcalls import write_config
from bench.peers.company import ECHO
from bench.peers.venvs import PeerMissingError
from bench.sampling import Case, take_turns, with_skipped
from bench.world import PACE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp import Client

    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World

_CALL = "from servers.bench import read_only\nanswer = await read_only(n=4)\nresult = answer['n']"
_THEIR_CALL = "answer = await call_tool('read_only', {'n': 4})\nreturn answer['n']"
_SERVER = Path(__file__).parents[1] / "peers" / "codemode_server.py"
_KEPT = ("PATH", "LANG", "XDG_DATA_HOME")


async def measure(world: World, sizes: Sizes) -> Measured:
    async with AsyncExitStack() as stack:
        ours = await open_ours(world, stack)
        cases = [
            Case(name="mcp.fresh", take=_ours(ours, "result = 1+1", 2), per_round=sizes.fresh),
            Case(name="mcp.session", take=_ours(ours, "result = 1+1", 2, session="kept"), per_round=sizes.session),
            Case(name="mcp.call", take=our_calls(ours), per_round=sizes.fresh),
        ]
        skipped: dict[str, str] = {}
        try:
            theirs = await open_codemode(world, stack)
        except PeerMissingError as error:
            skipped = dict.fromkeys(("codemode.execute", "codemode.call"), str(error))
        else:
            cases += [
                Case(name="codemode.execute", take=_theirs(theirs, "return 1 + 1", 2), per_round=sizes.fresh),
                Case(name="codemode.call", take=their_calls(theirs), per_round=sizes.fresh),
            ]
        return with_skipped(await take_turns("mcp", cases, rounds=sizes.rounds, warm_ups=sizes.warm_ups), skipped)


async def open_ours(world: World, stack: AsyncExitStack) -> Client:
    """A client of `moonpool mcp`, in front of the echo server."""
    return await _client(stack, sys.executable, *_our_arguments(world), env=_our_env(world), cwd=world.folder)


async def open_codemode(world: World, stack: AsyncExitStack) -> Client:
    """A client of CodeMode in front of the same server. Raises PeerMissingError."""
    python = await world.peers.python("codemode")
    home = world.folder / "codemode-home"
    home.mkdir(exist_ok=True)
    env = {"HOME": str(home), **_kept()}
    return await _client(stack, str(python), str(_SERVER), sys.executable, str(ECHO), env=env, cwd=world.folder)


def our_calls(client: Client) -> Callable[[int], Any]:
    """Fresh executions with one tool call each; returns ms."""
    return _ours(client, _CALL, 5)


def their_calls(client: Client) -> Callable[[int], Any]:
    """The same with CodeMode."""
    return _theirs(client, _THEIR_CALL, 5)


def _our_arguments(world: World) -> tuple[str, ...]:
    config = write_config(world.folder)
    start = "from moonpool.cli.main import main; main()"
    return ("-c", start, "mcp", "--env", "base", "--approve", "auto", "--config", str(config))


def _our_env(world: World) -> dict[str, str]:
    return {"MOONPOOL_DATA_DIR": str(world.settings("base").data_dir), "HOME": os.environ.get("HOME", "/"), **_kept()}


def _kept() -> dict[str, str]:
    return {name: os.environ[name] for name in _KEPT if name in os.environ}


async def _client(stack: AsyncExitStack, command: str, *arguments: str, env: dict[str, str], cwd: Path) -> Client:
    from mcp import Client, StdioServerParameters  # noqa: PLC0415  costs a second
    from mcp.client.stdio import stdio_client  # noqa: PLC0415

    log = stack.enter_context((cwd / "mcp-servers.log").open("a", encoding="utf-8"))
    server = StdioServerParameters(command=command, args=list(arguments), env=env, cwd=cwd)
    return await stack.enter_async_context(Client(stdio_client(server, errlog=log)))


def _ours(client: Client, code: str, expected: int, **arguments: str) -> Callable[[int], Any]:
    def check(answer: Any) -> None:
        assert answer.structured_content == {"ok": True, "data": expected}, answer

    return _timed(client, "execute_code", {"code": code, **arguments}, check, paced="session" not in arguments)


def _theirs(client: Client, code: str, expected: int) -> Callable[[int], Any]:
    def check(answer: Any) -> None:
        said = "".join(getattr(block, "text", "") for block in answer.content)
        if answer.is_error or said != str(expected):
            raise PeerMissingError(f"CodeMode answered {answer.content!r}"[:400])

    return _timed(client, "execute", {"code": code}, check, paced=True)


def _timed(
    client: Client, tool: str, arguments: dict[str, str], check: Callable[[Any], None], *, paced: bool
) -> Callable[[int], Any]:
    async def take(count: int) -> list[float]:
        samples: list[float] = []
        for _ in range(count):
            started = time.perf_counter()
            answer = await client.call_tool(tool, arguments)
            samples.append(1000 * (time.perf_counter() - started))
            check(answer)
            if paced:
                await asyncio.sleep(PACE_S)
        return samples

    return take
