"""The programs of the contract suite: as code for the real backends, as a script for the fake one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.sandboxes.base import Stream
from moonpool.sandboxes.fake import GuestExit, Interrupted
from moonpool.sandboxes.messages import (
    Done,
    Execute,
    GuestError,
    NondeterminismLog,
    RecordedNondeterminism,
    ToolCall,
    ToolResult,
)
from moonpool_wire.limits import NONDETERMINISM_BYTES_MAX

if TYPE_CHECKING:
    from moonpool.sandboxes.fake import FakeGuest, GuestScript


@dataclass(frozen=True)
class Program:
    """The same behaviour twice."""

    code: str
    script: GuestScript

    async def play(self, guest: FakeGuest) -> None:
        """The script, and afterwards what a kernel does: wait."""
        await self.script(guest)
        while True:
            try:
                await guest.pause()
            except Interrupted:
                continue


async def _order(guest: FakeGuest) -> Execute:
    while True:
        message, _ = await guest.receive()
        if isinstance(message, Execute):
            return message


def _done(guest: FakeGuest, order: Execute, result: object = None, *, status: str = "ok") -> None:
    has_result = status == "ok" and result is not None
    error = None if status == "ok" else GuestError(type="KeyboardInterrupt", message=status)
    guest.send(
        Done(run=order.run, status=status, error=error, has_result=has_result),  # pyright: ignore[reportArgumentType]
        json.dumps(result).encode() if has_result else b"",
    )


async def _one_plus_one(guest: FakeGuest) -> None:
    while True:
        _done(guest, await _order(guest), 2)


ADD = Program("result = 1 + 1", _one_plus_one)


async def _reads_what_is_shown(guest: FakeGuest) -> None:
    while True:
        order = await _order(guest)
        (folders, _) = guest.packages[-1]
        _done(guest, order, [guest.shown["a.txt"].decode(), *sorted(folder.name for folder in folders)])


READS_WHAT_IS_SHOWN = Program(
    "import importlib, os\nresult = [open('/wrappers/a.txt').read(), *sorted(\n"
    "    name for name in ('first', 'second') if importlib.import_module(name).__file__)]",
    _reads_what_is_shown,
)


async def _both_streams(guest: FakeGuest) -> None:
    order = await _order(guest)
    for number in range(100):
        guest.write(b"o%d\n" % number, Stream.STDOUT)
        guest.write(b"e%d\n" % number, Stream.STDERR)
    _done(guest, order)


BOTH_STREAMS = Program(
    "import sys\nfor n in range(100):\n    print(f'o{n}')\n    print(f'e{n}', file=sys.stderr)", _both_streams
)


async def _talks_between_calls(guest: FakeGuest) -> None:
    order = await _order(guest)
    for number in range(1, 21):
        guest.write(b"before %d\n" % number)
        guest.send(ToolCall(id=number, server="s", tool="t"), b"{}")
        await guest.receive()
    _done(guest, order)


TALKS_BETWEEN_CALLS = Program(
    """
from moonpool_guest.toolcalls import invoke_sync
for n in range(1, 21):
    print(f"before {n}")
    invoke_sync("s", "t", {})
""",
    _talks_between_calls,
)


async def _floods(guest: FakeGuest) -> None:
    order = await _order(guest)
    for _ in range(64):
        guest.write(b"x" * 65_536)
    _done(guest, order, "after")


FLOODS = Program("import os\nfor _ in range(64):\n    os.write(1, b'x' * 65536)\nresult = 'after'", _floods)


async def _calls_a_tool(guest: FakeGuest) -> None:
    order = await _order(guest)
    guest.send(ToolCall(id=1, server="srv", tool="t.o-ol", line=3), '{"text":"ä\\u0000"}'.encode())
    message, body = await guest.receive()
    assert message == ToolResult(id=1)
    _done(guest, order, json.loads(body))


CALLS_A_TOOL = Program(
    """
from moonpool_guest.toolcalls import invoke_sync
result = invoke_sync("srv", "t.o-ol", {"text": "ä\\0"})
""",
    _calls_a_tool,
)


def echoes(size: int) -> Program:
    """Sends `size` bytes as an argument, gets them back, and hands over whether they were the same."""

    async def script(guest: FakeGuest) -> None:
        order = await _order(guest)
        text = "y" * size
        guest.send(ToolCall(id=1, server="s", tool="t"), json.dumps({"text": text}).encode())
        _, body = await guest.receive()
        _done(guest, order, json.loads(body)["raw"]["structuredContent"]["arguments"]["text"] == text)

    return Program(
        f"""
from moonpool_guest.toolcalls import invoke_sync
text = "y" * {size}
result = invoke_sync("s", "t", {{"text": text}})["raw"]["structuredContent"]["arguments"]["text"] == text
""",
        script,
    )


async def _is_busy(guest: FakeGuest) -> None:
    while True:
        order = await _order(guest)
        guest.write(b"busy\n")
        try:
            await guest.pause()
        except Interrupted:
            _done(guest, order, status="interrupted")


IS_BUSY = Program("print('busy')\nwhile True: pass", _is_busy)


def ends(*, code: int | None = None, signal: int | None = None, how: str) -> Program:
    async def script(guest: FakeGuest) -> None:
        await _order(guest)
        guest.write(b"last words\n")
        raise GuestExit(code or 0, signal=signal)

    return Program(f"import os, ctypes, signal\nprint('last words', flush=True)\n{how}", script)


async def _breaks_the_protocol(guest: FakeGuest) -> None:
    await _order(guest)
    guest.send_raw(b'{"t":"done"}')
    await guest.pause()


BREAKS_THE_PROTOCOL = Program(
    'import os, time\nos.write(3, bytes([1, 0, 0, 14, 0, 12]) + b\'{"t":"done"}\')\ntime.sleep(60)',
    _breaks_the_protocol,
)


async def _reads_clock_and_chance(guest: FakeGuest) -> None:
    tape, number = None, 0
    while True:
        message, body = await guest.receive()
        if isinstance(message, NondeterminismLog):
            tape = (message.run, body)
        elif isinstance(message, Execute):
            number += 1
            said = b"seed %d, reading %d" % (guest.hash_seed, number) if tape is None else tape[1]
            guest.write(said)
            if message.record or tape is not None:
                guest.send(RecordedNondeterminism(run=message.run), said if message.record else b"")
            tape = None
            _done(guest, message)


READS_CLOCK_AND_CHANCE = Program(
    """
import datetime, os, random, secrets, time, uuid
print(time.time(), time.time_ns(), time.monotonic(), time.perf_counter(), time.process_time(), time.ctime())
print(time.localtime(), time.gmtime(), time.asctime(), time.strftime("%c"), time.clock_gettime(time.CLOCK_REALTIME))
print(datetime.datetime.now(), datetime.datetime.now(datetime.timezone.utc), datetime.datetime.today())
print(random.random(), random.choice(range(1000)), random.Random().random(), random.SystemRandom().random())
print(uuid.uuid1(), uuid.uuid4(), os.urandom(8), os.getrandom(8), secrets.token_hex())
random.seed()
print(random.random(), {"a", "b", "c", "d", "e"}, hash("a"))
""",
    _reads_clock_and_chance,
)


async def _sends_a_huge_log(guest: FakeGuest) -> None:
    order = await _order(guest)
    guest.send(RecordedNondeterminism(run=order.run), bytes(NONDETERMINISM_BYTES_MAX + 1))
    await guest.pause()


SENDS_A_HUGE_LOG = Program(
    f"""
from moonpool_guest import toolcalls
channel = toolcalls._state["channel"]
channel.send({{"t": "nondeterminism_log", "run": "1"}}, bytes({NONDETERMINISM_BYTES_MAX + 1}))
channel.wait_sent()
import time; time.sleep(60)
""",
    _sends_a_huge_log,
)
