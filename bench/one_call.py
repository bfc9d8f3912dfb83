"""`python -m bench.one_call`: one HTTP call that runs code, without a thread and with threads of 1, 10 and 100 MiB.

In turns, over one connection that is kept: `sandbox_execute` over MCP and `/v1/sandbox/execute`, beside the same bytes
answered by Starlette under uvicorn and nothing else; then the same call with a thread that it only looks at, and one in
which it changes one small file, which is committed before the answer. Then a file of `--gib` goes up and down by signed
URLs, and the memory of the service is printed as it goes. Every answer is compared.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sys
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from bench.http_service import HttpClient, connected, served
from bench.machine import describe_machine
from bench.processes import resident_megabytes
from bench.sampling import Case, median, percentile, take_turns
from bench.service import start_bare
from bench.world import PACE_S, open_world, prepare_environment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MEBIBYTES: Final = (1, 10, 100)
_MIB: Final = 1024**2
_GOALS_MS: Final = {"sandbox_execute": 6.0}
"""Issue 17; Baponi says 12 to 18 ms of overhead."""
_FILL: Final = (
    "import os\nfor n in range({count}):\n    open(f'part{{n}}', 'wb').write(os.urandom({size}))\nprint('filled')"
)
_CHANGE: Final = "open('changed', 'w').write(str({number}))\nprint({number})"
_PIECE: Final = b"moonpool" * (_MIB // 8)


def _mcp(code: str, thread: str | None = None) -> dict[str, Any]:
    arguments = {"code": code, **({} if thread is None else {"thread_id": thread})}
    params = {"name": "sandbox_execute", "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


async def _execute(client: HttpClient, code: str, expected: str, thread: str | None = None) -> None:
    body = {"code": code, "timeout": 60, **({} if thread is None else {"thread_id": thread})}
    status, answer = await client.post("/v1/sandbox/execute", body)
    assert (status, answer.get("stdout"), answer.get("error")) == (200, f"{expected}\n", None), answer


def _timed(ask: Callable[[int], Awaitable[None]]) -> Callable[[int], Awaitable[list[float]]]:
    asked = 0

    async def take(count: int) -> list[float]:
        nonlocal asked
        samples: list[float] = []
        for _ in range(count):
            asked += 1
            started = time.perf_counter()
            await ask(asked)
            samples.append(1000 * (time.perf_counter() - started))
            await asyncio.sleep(PACE_S)
        return samples

    return take


async def _cases(client: HttpClient, stack: AsyncExitStack, sizes: tuple[int, ...]) -> list[Case]:
    bare = await stack.enter_async_context(connected(await start_bare(stack)))

    async def over_mcp(number: int) -> None:
        status, answer = await client.post("/mcp/baponi", _mcp(f"print({number})"))
        text = f"## Execution Result\n\n**stdout:**\n```\n{number}\n```\n\n**Exit code:** 0"
        assert status == 200, answer
        assert answer["result"]["content"][0]["text"] == text, answer

    async def over_rest(number: int) -> None:
        await _execute(client, f"print({number})", str(number))

    async def answer_bare(number: int) -> None:
        status, _ = await bare.post("/mcp", _mcp(f"print({number})"))
        assert status == 200

    cases = [
        Case(name="sandbox_execute", take=_timed(over_mcp), per_round=5),
        Case(name="/v1/sandbox/execute", take=_timed(over_rest), per_round=5),
        Case(name="bare Starlette", take=_timed(answer_bare), per_round=5),
    ]
    for size in sizes:
        thread = f"bench-{size}"
        fill = _FILL.format(count=size, size=_MIB)
        await _execute(client, fill, "filled", thread)

        async def look(number: int, thread: str = thread) -> None:
            await _execute(client, f"print({number})", str(number), thread)

        async def change(number: int, thread: str = thread) -> None:
            await _execute(client, _CHANGE.format(number=number), str(number), thread)

        cases.append(Case(name=f"thread of {size} MiB, nothing changed", take=_timed(look)))
        cases.append(Case(name=f"thread of {size} MiB, one file changed", take=_timed(change)))
    return cases


# --- a large file


async def large_file(port: int, pid: int, bytes_count: int) -> dict[str, Any]:
    """Up and down by signed URLs: rates, and the resident memory of the service meanwhile, in MB."""
    asked = {"source": "thread", "id": "bench-large", "path": "large"}
    up = await _signed(port, "upload_url", {**asked, "content_length": bytes_count})
    before = resident_megabytes(pid)
    up_s, up_peak, sent = await _watched(pid, _upload(port, up, bytes_count))
    down = await _signed(port, "download_url", asked)
    down_s, down_peak, received = await _watched(pid, _download(port, down["url"]))
    assert sent == received
    mebibytes = bytes_count / _MIB
    return {
        "MiB": round(mebibytes),
        "up, MiB per second": round(mebibytes / up_s, 1),
        "down, MiB per second": round(mebibytes / down_s, 1),
        "resident MB before, most while up, most while down": [round(one, 1) for one in (before, up_peak, down_peak)],
        "goal of the memory": "flat",
    }


async def _signed(port: int, route: str, asked: dict[str, Any]) -> dict[str, Any]:
    async with connected(port) as client:  # one of its own: the service ends those that are idle for long
        status, answer = await client.post(f"/v1/files/{route}", asked)
    assert status == 200, answer
    return answer


async def _watched(pid: int, work: Any) -> tuple[float, float, str]:
    peak, started = 0.0, time.perf_counter()
    task = asyncio.ensure_future(work)
    while not task.done():
        peak = max(peak, resident_megabytes(pid))
        await asyncio.wait({task}, timeout=0.25)
    return time.perf_counter() - started, peak, task.result()


async def _upload(port: int, signed: dict[str, Any], bytes_count: int) -> str:
    """SHA-256 of what was sent."""
    digest = hashlib.sha256()
    headers = "".join(f"{one['name']}: {one['value']}\r\n" for one in signed["headers"])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"PUT {urlsplit(signed['url']).path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-length: {bytes_count}\r\n"
    writer.write(f"{head}{headers}\r\n".encode())
    left = bytes_count
    while left:
        piece = _PIECE[:left]
        digest.update(piece)
        writer.write(piece)
        await writer.drain()
        left -= len(piece)
    status = await reader.readline()
    assert b" 200 " in status, status
    writer.close()
    return digest.hexdigest()


async def _download(port: int, url: str) -> str:
    digest = hashlib.sha256()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
    request = f"GET {urlsplit(url).path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n"
    writer.write(request.encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in head.partition(b"\r\n")[0], head
    while piece := await reader.read(2**20):
        digest.update(piece)
    writer.close()
    return digest.hexdigest()


def _figures(samples: list[float], p50_max: float | None = None) -> dict[str, Any]:
    return {
        "p50": round(median(samples), 2),
        **({} if p50_max is None else {"goal": f"p50 at most {p50_max:g}"}),
        "p95": round(percentile(samples, 0.95), 2),
        "min": round(min(samples), 2),
    }


async def measured(*, rounds: int, sizes: tuple[int, ...], large_bytes: int) -> dict[str, Any]:
    """Everything, once."""
    await prepare_environment("base")
    found: dict[str, Any] = {"machine": describe_machine()}
    async with open_world(("base",), peers=False) as world, served(world) as (port, pid), AsyncExitStack() as stack:
        client = await stack.enter_async_context(connected(port))
        turns = await take_turns("one call", await _cases(client, stack, sizes), rounds=rounds)
        found["one at a time, ms"] = {name: _figures(turns.samples(name), _GOALS_MS.get(name)) for name in turns.rounds}
        if large_bytes:
            found["a large file"] = await large_file(port, pid, large_bytes)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="bench.one_call", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="of five calls without a thread and one with each")
    parser.add_argument("--gib", type=float, default=10.0, help="size of the large file; 0: none")
    parser.add_argument(
        "--quick", action="store_true", help="at most 5 rounds, no thread of 100 MiB, 64 MiB as large file"
    )
    options = parser.parse_args(arguments)
    if options.quick:
        doing = measured(rounds=min(5, options.rounds), sizes=MEBIBYTES[:2], large_bytes=64 * _MIB)
    else:
        doing = measured(rounds=options.rounds, sizes=MEBIBYTES, large_bytes=int(options.gib * 1024**3))
    print(json.dumps(asyncio.run(doing), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
