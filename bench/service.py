"""`python -m bench.service`: the HTTP service beside bare Starlette and fastmcp's CodeMode, then 64 clients at once.

One client asks each in turn, over one connection that is kept: `execute_code`, the same JSON answered by Starlette
under uvicorn and nothing else, CodeMode's `execute` over its own HTTP, and the time to the first output of a session;
then what a writing tool call adds, with the service's records in SQLite and in PostgreSQL (`writing_calls`).
Then many clients of two revisions ask for `--seconds`, fresh executions and sessions' own, in turns with the same
sequence in one process without HTTP: the rate is compared, every status and the service's memory are printed. It exits
with 1 if they were answered with anything but 200, 429 and 503. Where `MOONPOOL_REQUIRE_POSTGRES` is set it fails
without one.
The client is small, so that the machine's cores are the service's; it compares every answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.http_service import PLAIN, START_S, HttpClient, call, connected, free_port, served
from bench.machine import describe_machine
from bench.peers.company import ECHO
from bench.peers.venvs import PeerMissingError
from bench.processes import resident_megabytes
from bench.sampling import Case, median, percentile, take_turns
from bench.world import PACE_S, open_world, prepare_environment
from bench.writing_calls import GOALS_MS, added_by_writing
from moonpool.engine.code_request import CodeRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from bench.world import World
    from moonpool.bootstrap import Tenant
    from moonpool.engine.sessions import Session

CLIENTS: Final = 64
IN_SESSIONS: Final = 16
"""So many there are, each a sandbox that stays, for every fourth execution."""
_MODERN: Final = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "execute_code"}
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_CODEMODE: Final = Path(__file__).parent / "peers" / "codemode_server.py"
_GOALS_MS: Final = {"execute_code": 6.0, "first output": 10.0}
"""These and all other goals: issue 16."""
_BY_DESIGN: Final = frozenset({"200", "429", "503"})
"""A 200 is one with the right answer; one with an error in it is counted with the error's type."""
_SLICE_S: Final = 10.0
"""Of the time that many clients ask; each slice has its turn in process beside it."""
_BARE: Final = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def answer(request):
    asked = await request.json()
    content = [{"type": "text", "text": '{"ok": true, "data": 2}'}]
    result = {"content": content, "structuredContent": {"ok": True, "data": 2}}
    return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": result})

application = Starlette(routes=[Route("/mcp", answer, methods=["POST"])])
uvicorn.run(application, host="127.0.0.1", port=int(sys.argv[1]), http="h11", log_level="error", access_log=False,
            timeout_keep_alive=600)
"""


# --- one at a time


async def latencies(world: World, port: int, stack: AsyncExitStack, rounds: int) -> dict[str, Any]:
    """Milliseconds of each case, which take turns."""
    ours = await stack.enter_async_context(connected(port))
    bare = await stack.enter_async_context(connected(await start_bare(stack)))

    async def execute() -> None:
        status, answer = await ours.post("/mcp", call("result = 1+1"), PLAIN)
        assert status == 200, answer
        assert answer["result"]["structuredContent"]["data"] == 2, answer

    async def answer_bare() -> None:
        status, _ = await bare.post("/mcp", call("result = 1+1"))
        assert status == 200

    status, session = await ours.post("/v1/sessions", {"environment": "base"})
    assert status == 201, session
    executions = f"/v1/sessions/{session['id']}/executions"
    cases = [
        Case(name="execute_code", take=_timed(execute), per_round=5),
        Case(name="bare Starlette", take=_timed(answer_bare), per_round=5),
        Case(name="first output", take=_first_output(ours, executions), per_round=5),
    ]
    try:
        cases.append(Case(name="CodeMode", take=_timed(await _codemode(world, stack)), per_round=5))
    except PeerMissingError as error:
        print(f"bench: {error}", file=sys.stderr)
    measured = await take_turns("service", cases, rounds=rounds)
    return {name: _figures(measured.samples(name), _GOALS_MS.get(name)) for name in measured.rounds}


def _timed(ask: Callable[[], Awaitable[None]]) -> Callable[[int], Awaitable[list[float]]]:
    async def take(count: int) -> list[float]:
        samples: list[float] = []
        for _ in range(count):
            started = time.perf_counter()
            await ask()
            samples.append(1000 * (time.perf_counter() - started))
            await asyncio.sleep(PACE_S)
        return samples

    return take


def _first_output(client: HttpClient, path: str) -> Callable[[int], Awaitable[list[float]]]:
    async def take(count: int) -> list[float]:
        samples: list[float] = []
        for _ in range(count):
            heard = ""
            started = time.perf_counter()
            async for line in client.lines(path, {"code": "print('here')"}):
                if line["type"] == "output" and not heard:
                    samples.append(1000 * (time.perf_counter() - started))
                    heard = line["text"]
            assert heard == "here\n", heard
            await asyncio.sleep(PACE_S)
        return samples

    return take


async def _codemode(world: World, stack: AsyncExitStack) -> Callable[[], Awaitable[None]]:
    """CodeMode over HTTP without sessions, in front of the echo server. Raises PeerMissingError."""
    python, port = await world.peers.python("codemode"), free_port()
    program = (str(python), str(_CODEMODE), "--http", str(port), sys.executable, str(ECHO))
    client = await _open(stack, port, *program)
    asked = call("")
    asked["params"] = {"name": "execute", "arguments": {"code": "return 1 + 1"}}

    async def ask() -> None:
        status, answer = await client.post("/mcp", asked)
        assert status == 200, answer
        assert answer["result"]["content"][0]["text"] == "2", answer

    return ask


async def start_bare(stack: AsyncExitStack) -> int:
    port = free_port()
    await _open(stack, port, sys.executable, "-c", _BARE, str(port))
    return port


async def _open(stack: AsyncExitStack, port: int, *program: str) -> HttpClient:
    process = await asyncio.create_subprocess_exec(*program, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.push_async_callback(process.wait)
    stack.callback(process.terminate)
    async with asyncio.timeout(START_S):
        while True:
            try:
                return await stack.enter_async_context(connected(port))
            except ConnectionRefusedError:
                await asyncio.sleep(0.05)


# --- many at once


async def many(world: World, port: int, pid: int, seconds: float) -> dict[str, Any]:
    """Executions a second over HTTP and without, in turns, statuses, and the service's memory as it goes."""
    statuses: Counter[str] = Counter()
    memory: list[float] = []
    beside: list[float] = []
    busy_s, slices = 0.0, max(1, round(seconds / _SLICE_S))
    async with world.app("base") as app:
        for _ in range(slices):
            beside.append(await _rate_in_process(app, seconds / slices / 3))
            started = time.perf_counter()
            end = started + seconds / slices
            mix = _Mix()
            await asyncio.gather(*(_client(port, one, mix, end, statuses) for one in range(CLIENTS)))
            busy_s += time.perf_counter() - started
            memory.append(resident_megabytes(pid))
    rate = statuses["200"] / busy_s
    return {
        "over HTTP, per second": round(rate, 1),
        "in process, per second": round(statistics.mean(beside), 1),
        "ratio": round(rate / statistics.mean(beside), 2),
        "goal of the ratio": "at least 0.5",
        "statuses": dict(statuses),
        "goal of the statuses": ", ".join(sorted(_BY_DESIGN)),
        "statuses against the goal": sorted(set(statuses) - _BY_DESIGN),
        "resident MB after each slice": [round(one, 1) for one in memory],
        "goal of the memory": "flat",
    }


class _Mix:
    """What the clients ask for, one after the other: every fourth execution is in one of the sessions, which do one at
    a time.

    INVARIANT: the same sequence with and without HTTP. Were each client to keep to one kind, the faster side would do
    more of the cheap one, and what is compared would not be HTTP.
    """

    def __init__(self) -> None:
        self._count = count()
        self._turns = [asyncio.Lock() for _ in range(IN_SESSIONS)]

    @asynccontextmanager
    async def next(self) -> AsyncGenerator[tuple[int, int | None]]:
        """A number of its own, and which session it is for."""
        number = next(self._count)
        if number % 4:
            yield number, None
            return
        session = number // 4 % IN_SESSIONS
        async with self._turns[session]:
            yield number, session


async def _client(port: int, revision: int, mix: _Mix, end: float, statuses: Counter[str]) -> None:
    """One of the clients, by the newest revision or by one without a handshake."""
    headers = _MODERN if revision % 2 else PLAIN
    while time.perf_counter() < end:
        async with connected(port) as client:  # a few requests each, as clients come and go
            for _ in range(5):
                async with mix.next() as (number, session):
                    asked = call(f"result = {number}", **({} if session is None else {"session": f"s{session}"}))
                    if headers is _MODERN:
                        asked["params"]["_meta"] = _META
                    status, answer = await client.send(client.encoded("/mcp", asked, headers))
                is_right = b'"data":%d' % number in answer.replace(b" ", b"")
                statuses[str(status) if is_right or status != 200 else _error_of(answer)] += 1
                if time.perf_counter() >= end:
                    break


def _error_of(answer: bytes) -> str:
    told = json.loads(answer.rpartition(b"data:")[2] or answer)["result"]["structuredContent"]
    assert "error" in told, answer
    return f"200 {told['error']['type']}"


async def _rate_in_process(app: Tenant, seconds: float) -> float:
    """The same mix of executions without HTTP."""
    mix, started = _Mix(), time.perf_counter()
    sessions = [app.runtime.session(app.caller_grant) for _ in range(IN_SESSIONS)]
    counts = await asyncio.gather(*(_worker(app, sessions, mix, started + seconds) for _ in range(CLIENTS)))
    rate = sum(counts) / (time.perf_counter() - started)
    await asyncio.gather(*(session.close() for session in sessions))
    return rate


async def _worker(app: Tenant, sessions: Sequence[Session], mix: _Mix, end: float) -> int:
    done = 0
    while time.perf_counter() < end:
        async with mix.next() as (number, session):
            request = CodeRequest(code=f"result = {number}".encode())
            if session is None:
                envelope = await app.runtime.run(request, app.caller_grant)
            else:
                envelope = await sessions[session].execute(request)
        assert envelope.data == number, envelope
        done += 1
    return done


def _figures(samples: list[float], p50_max: float | None = None) -> dict[str, Any]:
    return {
        "p50": round(median(samples), 2),
        **({} if p50_max is None else {"goal": f"p50 at most {p50_max:g}"}),
        "p95": round(percentile(samples, 0.95), 2),
        "min": round(min(samples), 2),
    }


async def measured(*, rounds: int, seconds: float, peers: bool) -> dict[str, Any]:
    """Everything, once."""
    await prepare_environment("base")
    found: dict[str, Any] = {"machine": describe_machine()}
    async with open_world(("base",), peers=peers) as world, served(world) as (port, pid), AsyncExitStack() as stack:
        found["one at a time, ms"] = await latencies(world, port, stack, rounds)
        await stack.aclose()
        writing = await added_by_writing(world, rounds)
        found["a writing tool call adds, ms"] = {
            store: _figures(writing.samples(store), GOALS_MS[store]) for store in writing.rounds
        }
        found[f"{CLIENTS} clients for {seconds:g} s"] = await many(world, port, pid, seconds)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="bench.service", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="of five requests each")
    parser.add_argument("--seconds", type=float, default=60.0, help="for which many clients ask")
    parser.add_argument("--quick", action="store_true", help="5 rounds, 5 seconds")
    parser.add_argument("--no-peers", action="store_true", help="without CodeMode, which must be installed")
    options = parser.parse_args(arguments)
    rounds, seconds = (5, 5.0) if options.quick else (options.rounds, options.seconds)
    found = asyncio.run(measured(rounds=rounds, seconds=seconds, peers=not options.no_peers))
    print(json.dumps(found, indent=1))
    (many_at_once,) = (part for part in found.values() if "statuses" in part)
    return int(bool(many_at_once["statuses against the goal"]))


if __name__ == "__main__":
    sys.exit(main())
