"""Attacks on the host's end of the channel, while a neighbour is measured.

Each is bounded by the attacker's own program and by the scene. Violations end the attacker; excess traffic is slowed
down; the neighbour completes its work in both cases.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from moonpool.doctor.probes.judging import descriptors_of, judge, judge_neighbour, token
from moonpool.doctor.probes.record import AnyProbe, Finding, HostProbe
from moonpool.sandboxes.messages import ToolCall, ToolResult

if TYPE_CHECKING:
    from moonpool.doctor.probes.record import Stage

_NEIGHBOUR_RUNS = 10
_LARGE_REPLY_BYTES, _LARGE_REPLIES = 16 * 1024 * 1024, 40

_FLOOD = """
head = b'{"t":"display","mime":"x"}'
data = (struct.pack('>IH', 1 << 24 | 2 + len(head), len(head)) + head) * 200
os.set_blocking(3, True)
for _ in range(50):
    view = memoryview(data)
    while view:
        view = view[os.write(3, view):]
seen('flood')
"""
_HALF = """
import json
os.set_blocking(3, True)
for part in (PART,):
    os.write(3, part)
os.write(1, b'half')
time.sleep(30)
"""


async def _descriptor_flood(stage: Stage) -> Finding:
    """Descriptors sent along with honest frames must not reach the host."""
    sandbox, name = await stage.open_sandbox(), token()
    program = """
head = b'{"t":"display","mime":"x"}'
data = struct.pack('>IH', 1 << 24 | 2 + len(head), len(head)) + head
os.set_blocking(3, True)
_channel, mine = socket.socket(fileno=os.dup(3)), os.open('/tmp/NAME', os.O_CREAT | os.O_RDWR)
for _ in range(100):
    for _ in range(200):
        try:
            socket.send_fds(_channel, [data], [mine] * 20); seen('sent'); break
        except OSError as error:
            seen(errno.errorcode[error.errno]); time.sleep(0.005)  # the most that may be on their way
_channel.close()
"""
    heard = await stage.run(sandbox, program.replace("NAME", name))
    if heard.error:
        return Finding(blocked=False, detail=heard.error)
    arrived = descriptors_of(name)
    return Finding(blocked=arrived == 0, detail=f"{arrived} descriptors arrived in the host")


async def _forged_identity(stage: Stage) -> Finding:
    """A tool call reaches the owner of the channel it came through, whatever its fields say."""
    attacker, neighbour = await stage.open_sandbox(), await stage.open_sandbox()
    program = f"""
head = __import__('json').dumps({{'t': 'tool_call', 'id': 7, 'server': 'a', 'tool': 'b', 'run': 'doctor',
    'sandbox_id': {neighbour.sandbox_id!r}, 'principal': 'admin'}}).encode()
payload = struct.pack('>H', len(head)) + head + b'{{}}'
os.write(3, struct.pack('>I', 1 << 24 | len(payload)) + payload); seen('sent')
"""
    mine = await stage.run(attacker, program)
    theirs = await stage.run(neighbour, "seen('nothing')")
    heard = [message for message in mine.messages if isinstance(message, ToolCall)]
    blocked = len(heard) == 1 and not theirs.messages and theirs.error is None
    return Finding(blocked=blocked, detail=f"{len(heard)} from the attacker, {len(theirs.messages)} as the neighbour")


async def _frame_flood(stage: Stage) -> Finding:
    """Ten thousand messages as fast as possible; a neighbour keeps working."""
    attacker, neighbour = await stage.open_sandbox(), await stage.open_sandbox()
    flooding = asyncio.create_task(stage.run(attacker, _FLOOD))
    finding = Finding(blocked=False, detail="the neighbour was not asked")
    for _ in range(_NEIGHBOUR_RUNS):
        finding = await judge_neighbour(stage, neighbour)
        if not finding.blocked:
            flooding.cancel()
            return finding
    heard = await flooding
    return judge(heard) if heard.outcome is None else finding


async def _half_frames(stage: Stage) -> Finding:
    """Attackers that stop in the middle: of a length, of a head, of a blob. A neighbour keeps working."""
    parts = ("b'\\x01'", "struct.pack('>I', 1 << 24 | 500) + b'{'",
             "struct.pack('>I', 2 << 24 | 46) + struct.pack('>IQ', 1, 16 << 20) + bytes(32) + b'{}' "
             "+ struct.pack('>I', 3 << 24 | 40004) + struct.pack('>I', 1) + bytes(40000)")  # fmt: skip
    neighbour = await stage.open_sandbox()
    attackers = [await stage.open_sandbox() for _ in parts]
    halves = [
        asyncio.create_task(stage.run(attacker, _HALF.replace("PART", part)))
        for attacker, part in zip(attackers, parts, strict=True)
    ]
    try:
        for _ in range(_NEIGHBOUR_RUNS):
            finding = await judge_neighbour(stage, neighbour)
            if not finding.blocked:
                return finding
        if over := [half.result() for half in halves if half.done()]:
            return Finding(blocked=False, detail=f"an attacker did not play its part: {over[0]}")
    finally:
        for half in halves:
            half.cancel()
        for attacker in attackers:
            await attacker.close()
    return Finding(blocked=True, detail=f"{_NEIGHBOUR_RUNS} executions of a neighbour beside {len(parts)} halves")


async def _silent_reader(stage: Stage) -> Finding:
    """A guest that never reads is ended before the host buffers too much for it. The replies share their bytes."""
    attacker, neighbour = await stage.open_sandbox(), await stage.open_sandbox()
    sleeping = asyncio.create_task(stage.run(attacker, "time.sleep(30)"))
    await asyncio.sleep(0)
    reply = bytes(_LARGE_REPLY_BYTES)
    try:
        for number in range(1, _LARGE_REPLIES + 1):
            if not attacker.has_ended:
                attacker.send(ToolResult(id=number), reply)
        outcome = await attacker.wait_exited()
    finally:
        sleeping.cancel()
    if outcome.violation is None:
        return Finding(blocked=False, detail=f"it ended without a violation: {outcome}")
    finding = await judge_neighbour(stage, neighbour)
    return finding if not finding.blocked else Finding(blocked=True, detail=outcome.violation)


CROWDING: Final[tuple[AnyProbe, ...]] = (
    HostProbe(
        probe_id="host-descriptor-flood",
        claim="C-CHAN-2",
        title="fill the host with descriptors",
        play=_descriptor_flood,
        quick=False,
    ),
    HostProbe(
        probe_id="host-forged-identity", claim="C-CHAN-3", title="speak as another sandbox", play=_forged_identity
    ),
    HostProbe(
        probe_id="host-frame-flood",
        claim="C-CHAN-4",
        title="flood the host with messages",
        play=_frame_flood,
        quick=False,
    ),
    HostProbe(
        probe_id="host-half-frames",
        claim="C-CHAN-4",
        title="stop in the middle of a message",
        play=_half_frames,
        quick=False,
    ),
    HostProbe(
        probe_id="host-silent-reader",
        claim="C-CHAN-4",
        title="never read what the host sends",
        play=_silent_reader,
        quick=False,
    ),
)
