"""The wire is hostile ground: guests that speak it themselves, beside neighbours that get everything they ask for.

Attacks that break the protocol are probes (`chan-*`); here are those that keep to it and mean harm, in whole
applications with a real server.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from apps import fixture_server, open_app, run
from moonpool.core.audit_records import ExecutionEndRecord
from moonpool.doctor.probes.record import Probe as Attack
from moonpool.doctor.service import run_doctor
from moonpool.engine.code_request import CodeRequest
from moonpool.pipeline.call_counters import OWN_RECORDS_MAX
from moonpool.sandboxes import zygote_process
from moonpool.sandboxes.base import ExitCause, SandboxStartError
from moonpool.sandboxes.zygote import ZygoteBackend
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path
from moonpool_wire.limits import CALLS_IN_FLIGHT_MAX
from process_tree import descendants, descendants_of
from sandboxes.probe import Probe, open_fds
from security.backends import BACKENDS, opened

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.bootstrap import Tenant
    from moonpool.core.audit import Journal
    from moonpool.core.audit_records import AuditRecord
    from moonpool.core.envelope import Envelope
    from moonpool.sandboxes.base import Stream

pytestmark = pytest.mark.anyio

ECHO = {"echo": fixture_server("echo.py")}
SPEAK = """
import json, os, signal, struct, sys, threading, time
frame = sys._getframe()
while "head" not in frame.f_locals or "run" not in frame.f_locals["head"]:
    frame = frame.f_back
run = frame.f_locals["head"]["run"]
os.set_blocking(3, True)
def word(kind, size): return struct.pack(">I", kind << 24 | size)
def put(data):
    view = memoryview(data)
    while view:
        view = view[os.write(3, view):]
def say(head, body=b""):
    text = json.dumps(head).encode()
    put(word(1, 2 + len(text) + len(body)) + struct.pack(">H", len(text)) + text + body)
def call(number, text="x", tool="echo"):
    say({"t": "tool_call", "id": number, "server": "echo", "tool": tool}, json.dumps({"text": text}).encode())
"""


def resident_bytes() -> int:
    """What this process holds in memory now."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def calls_on_record(app: Tenant, envelope: Envelope) -> list[int]:
    """Ids of the calls of an execution that reached the pipeline and left it."""
    rows = [json.loads(row.body) for row in read_rows(journal_path(app.data), run_id=envelope.run_id)]
    return [row["call_id"] for row in rows if "call_id" in row and "duration_ms" in row]


# --- a neighbour, measured

WIRE_ATTACKS = {
    "a flood of messages": 'data = b\'{"t":"display","mime":"x"}\'\n'
    "flood = (word(1, 2 + len(data)) + struct.pack('>H', len(data)) + data) * 500\nwhile True: put(flood)",
    "a flood of calls": "for number in range(1, 10**6): call(number)",
    "replayed calls": "while True: call(7)",
    "calls that nobody waits for, with large replies": "for n in range(1, 10**6):\n"
    '    say({"t": "tool_call", "id": n, "server": "echo", "tool": "big"}, b\'{"n": 900000}\')',
    "half a frame": "put(word(1, 5000) + b'{'); time.sleep(60)",
    "half a blob": "put(word(2, 46) + struct.pack('>IQ', 1, 16 << 20) + bytes(32) + b'{}')\n"
    "put(word(3, 40004) + struct.pack('>I', 1) + bytes(40000)); time.sleep(60)",
    "blobs that are too large": "for n in range(1, 10**6):\n"
    "    put(word(2, 46) + struct.pack('>IQ', n, 1 << 40) + bytes(32) + b'{}')",
    "results of other runs": "while True: say({'t': 'done', 'run': 'run_0', 'status': 'ok'}, b'1')",
    "answers to nothing": "while True: say({'t': 'file_done', 'order': 99, 'size': 1})",
    "junk": "put(os.urandom(1 << 16)); time.sleep(60)",
    "output without end": "while True: os.write(1, b'x' * 65536); os.write(2, b'y' * 65536)",
    "ends and new beginnings": "os._exit(9)",
}
NEIGHBOUR = """
from moonpool_guest.toolcalls import invoke_sync
result = [invoke_sync("echo", "echo", {"n": n})["raw"]["structuredContent"]["n"] for n in range(20)]
"""


@pytest.mark.slow
@pytest.mark.claim("C-CHAN-4")
async def test_a_neighbour_completes_its_calls_and_the_host_stays_small() -> None:
    """One application for all attacks: what an earlier one left behind in the host would be noticed, too."""
    async with open_app(ECHO, shared=False) as app:  # a zygote more would stay
        await run(app, NEIGHBOUR)
        fds, resident = open_fds(), resident_bytes()
        for attack, code in WIRE_ATTACKS.items():
            attackers = [asyncio.create_task(run(app, SPEAK + code, timeout_s=0.7)) for _ in range(3)]
            with anyio.fail_after(60):
                for _ in range(2):
                    assert (await run(app, NEIGHBOUR, timeout_s=40)).data == [*range(20)], attack
                ended = await asyncio.gather(*attackers)
            assert [envelope.data for envelope in ended if envelope.error is None] == [], attack
            grown = resident_bytes() - resident
            assert grown < 256 * 1024 * 1024, f"{attack}: the host grew by {grown} bytes"
    assert open_fds() <= fds


REFUSALS = "for number in range(1, 400): call(number, tool='nope')\nresult = 1"


@pytest.mark.claim("C-CHAN-4")
async def test_many_refused_calls_are_counted_exactly_and_not_written_one_by_one() -> None:
    async with open_app(ECHO) as app:
        floods = [asyncio.create_task(run(app, SPEAK + REFUSALS)) for _ in range(2)]
        assert (await run(app, NEIGHBOUR)).data == [*range(20)]
        for envelope in await asyncio.gather(*floods):
            rows = [json.loads(row.body) for row in read_rows(journal_path(app.data), run_id=envelope.run_id)]
            end = rows[-1]
            counted = sum(sum(row["refused"].values()) for row in rows if row["kind"] == "calls_refused")
            outcomes = sum(row["kind"] == "call_outcome" for row in rows)
            assert outcomes + counted == end["calls"] + end["calls_refused"]
            assert counted > 0
            assert outcomes <= OWN_RECORDS_MAX + CALLS_IN_FLIGHT_MAX  # those under way at the end are cancelled


LINES = 400_000
FIRST = f"""
import subprocess
print('x' * 100_000)
later = subprocess.Popen(['sh', '-c', 'sleep 0.2; exec seq {LINES}'])
result = 1
"""
"""More than the envelope keeps, so that there is an artifact; then output that comes after `done`."""


@pytest.mark.claim("C-CHAN-1")
@pytest.mark.parametrize("name", sorted(BACKENDS))
async def test_output_after_the_end_costs_the_session_nothing_and_is_the_next_executions(name: str) -> None:
    heard: list[bytearray] = [bytearray(), bytearray()]

    def hear(number: int) -> Callable[[Stream, bytes], None]:
        return lambda _, data: heard[number].extend(data)

    async with open_app(backend=name, limits="rlimits") as app:
        app.runtime.journal = held = HeldJournal(app.runtime.journal)
        session = app.runtime.session(app.caller_grant)
        first = asyncio.create_task(session.execute(CodeRequest(code=FIRST.encode(), observer=hear(0))))
        with anyio.fail_after(60):
            await held.reached.wait()
            sandbox: Any = session._kernel.sandbox
            while sandbox._link.hears_pipes:  # until as much is kept as may be, and the rest waits in the pipe
                await anyio.lowlevel.checkpoint()
            held.go_on.set()
            assert (await first).data == 1
            second = await session.execute(CodeRequest(code=b"result = later.wait()", observer=hear(1)))
        await session.close()
    assert (second.error, second.data) == (None, 0)
    assert bytes(heard[0] + heard[1]) == b"x" * 100_000 + b"\n" + b"".join(b"%d\n" % n for n in range(1, LINES + 1))
    assert len(heard[1]) > 65_536


class HeldJournal:
    """A journal that waits before it records the first end of an execution."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    def record(self, entry: AuditRecord) -> Awaitable[None]:
        if isinstance(entry, ExecutionEndRecord) and not self.reached.is_set():
            self.reached.set()
            return self._later(entry)
        return self._journal.record(entry)

    async def _later(self, entry: AuditRecord) -> None:
        await self.go_on.wait()
        await self._journal.record(entry)


# --- ids, results and moments


@pytest.mark.claim("C-CHAN-3")
async def test_a_call_that_is_replayed_reaches_the_server_once() -> None:
    async with open_app(ECHO) as app:
        envelope = await run(app, SPEAK + "for number in (5, 5, 6, 5, 6): call(number)\ntime.sleep(0.5)\nresult = 1")
        ids = await asyncio.to_thread(calls_on_record, app, envelope)
    assert envelope.data == 1
    assert sorted(ids) == [5, 6]


@pytest.mark.claim("C-CHAN-3")
async def test_of_two_results_the_first_counts() -> None:
    lies = (
        "for n in (1, 2, 3): say({'t': 'done', 'run': run, 'status': 'ok', 'has_result': True}, b'%d' % n)\nresult = 4"
    )
    async with open_app() as app:
        session = app.runtime.session(app.caller_grant)
        first = await session.execute(CodeRequest(code=(SPEAK + lies).encode()))
        second = await session.execute(CodeRequest(code=b"result = 5"))
        await session.close()
    assert (first.data, second.data) == (1, 5)


@pytest.mark.claim("C-CHAN-3")
async def test_what_is_said_between_two_executions_changes_neither() -> None:
    later = """
def speak():
    while not os.path.exists("/tmp/over"): time.sleep(0.001)
    for old in (run, "", "run_1"): say({"t": "done", "run": old, "status": "ok", "has_result": True}, b"666")
    for number in range(100, 110): call(number)
    say({"t": "ready", "protocol": 1, "pid": 1, "language": "python", "version": "3"})
    say({"t": "failed", "step": "filter", "message": "no"})
    open("/tmp/said", "w").close()
threading.Thread(target=speak, daemon=True).start()
result = 1
"""
    async with open_app(ECHO) as app:
        session = app.runtime.session(app.caller_grant)
        first = await session.execute(CodeRequest(code=(SPEAK + later).encode()))
        wait = (
            "import os, time\nopen('/tmp/over', 'w').close()\nwhile not os.path.exists('/tmp/said'): time.sleep(0.001)"
        )
        second = await session.execute(CodeRequest(code=f"{wait}\nresult = 2".encode()))
        third = await session.execute(CodeRequest(code=b"result = 3"))
        await session.close()
    assert (first.data, second.data, third.data) == (1, 2, 3)


@pytest.mark.claim("C-CHAN-4")
async def test_half_a_frame_is_ended_by_the_clock_of_its_own_execution() -> None:
    async with open_app() as app:
        envelope = await run(app, SPEAK + "put(word(1, 500) + b'{'); time.sleep(60)", timeout_s=0.5)
    assert envelope.error is not None
    assert envelope.error.type == "Timeout"


@pytest.mark.claim("C-CHAN-1")
@pytest.mark.parametrize("name", sorted(BACKENDS))
async def test_a_guest_that_dies_inside_a_frame_is_an_ordinary_end(name: str) -> None:
    async with opened(name) as (backend, spec):
        probe = Probe(await backend.open_sandbox(spec))
        ended = await probe.run_to_exit("import os\nos.write(3, b'\\x01\\x00\\x10\\x00\\x00')\nos._exit(3)")
    assert ended.exit is not None
    assert (ended.exit.cause, ended.exit.exit_code, ended.exit.violation) == (ExitCause.EXITED, 3, None)


# --- arguments

REFUSED = [
    b'{"a": NaN}', b'{"a": Infinity}', b'{"a": 1e999}', b'{"a": ' + b"9" * 900_000 + b"}", b"[1]", b'"x"', b"1", b"",
    b'{"a": 1}{"b": 2}', b'{"a": ' + b"[" * 70 + b"]" * 70 + b"}", b'{"a": "\xff"}', b"\x00",
]  # fmt: skip
RELAY = """
import json
from moonpool_guest import toolcalls
result = []
for body in {bodies!r}:
    reply = json.loads(await toolcalls.relay("echo", "echo", body))
    result.append(reply["error"]["type"] if not reply["ok"] else reply["raw"]["structuredContent"])
"""


async def test_arguments_that_are_no_proper_json_object_are_refused() -> None:
    async with open_app(ECHO) as app:
        envelope = await run(app, RELAY.format(bodies=REFUSED))
    assert envelope.error is None
    assert envelope.data == ["ValidationError"] * len(REFUSED)


async def test_a_name_that_stands_twice_means_one_thing_for_everybody() -> None:
    async with open_app(ECHO) as app:
        envelope = await run(app, RELAY.format(bodies=[b'{"path": "safe", "path": "other"}']))
    assert envelope.data == [{"path": "other"}]


async def test_half_a_surrogate_pair_is_answered_and_the_session_goes_on() -> None:
    async with open_app(ECHO) as app:
        envelope = await run(app, RELAY.format(bodies=[rb'{"a": "\ud800"}', rb'{"\udfff": 1}', b'{"a": "fine"}']))
    assert envelope.data == ["ValidationError", "ValidationError", {"a": "fine"}]


# --- output, time, terminals


@pytest.mark.req("P-009")
@pytest.mark.claim("C-LIM-7")
@pytest.mark.parametrize("stream", [1, pytest.param(2, marks=pytest.mark.slow)])
async def test_a_flood_of_output_is_ended_and_the_host_stays_small(stream: int) -> None:
    async with open_app() as app:
        await run(app, "result = 1")
        before = resident_bytes()
        envelope = await run(app, f"import os\nwhile True: os.write({stream}, b'x' * 65536)")
        grown = resident_bytes() - before
    assert envelope.error is not None
    assert envelope.error.type == "OutputTooLarge"
    assert grown < 128 * 1024 * 1024


@pytest.mark.req("P-004")
@pytest.mark.claim("C-LIM-7", "C-END-1")
async def test_code_that_ignores_its_interrupt_is_killed_and_confirmed_dead() -> None:
    stubborn = "import os, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nos.fork()\nwhile True: signal.pause()"
    async with open_app(serving=False) as app:
        await run(app, "result = 1")
        before = descendants()
        envelope = await run(app, stubborn, timeout_s=0.5)
        assert descendants() <= before
    assert envelope.error is not None
    assert envelope.error.type == "Timeout"


@pytest.mark.claim("C-LIM-7")
@pytest.mark.parametrize("jump_s", [1e7, -1e7])
async def test_a_jump_of_the_clock_moves_no_deadline(jump_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    async with open_app() as app:
        session = app.runtime.session(app.caller_grant)
        await session.execute(CodeRequest(code=b"result = 1"))
        monkeypatch.setattr(time, "time", lambda: real() + jump_s)
        quick = await session.execute(CodeRequest(code=b"import time; time.sleep(0.2); result = 2", timeout_s=30))
        with anyio.fail_after(20):
            late = await session.execute(CodeRequest(code=b"import time; time.sleep(60)", timeout_s=0.3))
        await session.close()
    assert quick.data == 2
    assert late.error is not None
    assert late.error.type == "Timeout"


async def test_a_report_of_the_doctor_cannot_speak_to_a_terminal() -> None:
    attack = Attack(probe_id="p", claim="C-FS-1", title="t", program="note('\\x1b[2J\\u202e\\x07\\n' + 'x' * 9000)")
    async with opened("zygote") as (backend, spec):
        report = await run_doctor(backend, spec, probes=[attack])
    detail = report.outcomes[-1].detail
    assert detail.isprintable()
    assert len(detail) <= 2000


# --- zygotes


@pytest.mark.claim("C-END-1")
async def test_a_zygote_that_does_not_answer_is_ended_and_the_caller_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened("zygote") as (backend, spec):
        assert isinstance(backend, ZygoteBackend)
        await (await backend.open_sandbox(spec)).close()
        frozen = await backend.zygote(spec.scope, spec.image)
        for pid in descendants_of(frozen.process.pid):
            os.kill(pid, signal.SIGSTOP)
        monkeypatch.setattr(zygote_process, "_SPAWN_TIMEOUT_S", 0.5)
        with anyio.fail_after(30), pytest.raises(SandboxStartError, match="did not answer"):
            await backend.open_sandbox(spec)
        monkeypatch.undo()
        with anyio.fail_after(30):
            await frozen.process.wait()
            probe = Probe(await backend.open_sandbox(spec))
            assert (await probe.run("result = 1")).result == 1
        assert await backend.zygote(spec.scope, spec.image) is not frozen
