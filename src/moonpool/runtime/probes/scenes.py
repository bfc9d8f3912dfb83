"""Attacks that only the host can judge: it looks at its own processes, or at a neighbour of the attacker."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.runtime.probes.record import AnyProbe, Finding, Scene
from moonpool.sandboxes.messages import ToolCall

if TYPE_CHECKING:
    from moonpool.runtime.probes.record import Heard, Stage
    from moonpool.sandboxes.base import Sandbox

_ALIVE = "seen('alive')\nif in_child(lambda: 7) != 7:\n    note('it cannot fork')\n"


async def _kernel_uid(stage: Stage) -> Finding:
    """Who the attacker is for the host's own kernel."""
    sandbox = await stage.open_sandbox()
    name = _token()
    if trouble := _trouble(await stage.run(sandbox, f"seen('named'); _libc.prctl(15, ctypes.c_char_p(b'{name}'))")):
        return trouble
    pids = _processes_named(name)
    if not pids:
        return Finding(blocked=False, detail="the sandbox's process was not found on this machine")
    status = _status(pids[0])
    uids, no_new_privileges = status["Uid"].split(), status["NoNewPrivs"].strip()
    blocked = "0" not in uids and no_new_privileges == "1" and int(status["CapEff"], 16) == 0
    return Finding(blocked=blocked, detail=f"uids {' '.join(uids)}, CapEff {status['CapEff'].strip()}")


async def _daemons_end(stage: Stage) -> Finding:
    """A daemon that ignores all signals, left by a sandbox that was closed."""
    sandbox, name = await stage.open_sandbox(), _token()
    program = f"""
def daemon():
    os.setsid()
    if os.fork():
        return 0
    for number in range(1, 32):
        with __import__("contextlib").suppress(OSError):
            signal.signal(number, signal.SIG_IGN)
    _libc.prctl(1, 0); _libc.prctl(15, ctypes.c_char_p(b'{name}'))
    os.write(ready, b'x'); time.sleep(60)
heard, ready = os.pipe()
in_child(daemon)
os.read(heard, 1)
seen('daemon')
"""
    if trouble := _trouble(await stage.run(sandbox, program)):
        return trouble
    before = len(_processes_named(name))
    await sandbox.close()
    after = len(_processes_named(name))
    return Finding(blocked=before == 1 and after == 0, detail=f"{before} before, {after} after")


async def _kill_group(stage: Stage) -> Finding:
    """kill(0) reaches the whole process group, across pid namespaces."""
    attacker, neighbour = await stage.open_sandbox(), await stage.open_sandbox()
    program = "seen('sent')\nfor target in (0, -1):\n    try: os.kill(target, signal.SIGKILL)\n    except OSError: pass"
    await stage.run(attacker, program)
    return await _judge_neighbour(stage, neighbour)


async def _starve(stage: Stage, program: str, check: str) -> Finding:
    attacker, neighbour = await stage.open_sandbox(), await stage.open_sandbox()
    if trouble := _trouble(await stage.run(attacker, program)):
        return trouble
    return await _judge_neighbour(stage, neighbour, check)


async def _starve_processes(stage: Stage) -> Finding:
    program = """
for _ in range(PROCESSES + 32):
    try:
        if os.fork() == 0:
            time.sleep(20); os._exit(0)
    except OSError as error:
        seen(errno.errorcode[error.errno]); break
else:
    note('no limit')
"""
    return await _starve(stage, program, "")


async def _starve_inotify(stage: Stage) -> Finding:
    program = "while len(_stopped) < 200 and _libc.inotify_init1(0) >= 0: seen(len(_stopped))"
    return await _starve(stage, program, "if _libc.inotify_init1(0) < 0: note('no inotify instance is left')")


async def _zygote_memory(stage: Stage) -> Finding:
    """A marker in the code of one sandbox, looked for in the memory of the next one."""
    first, second = _token(), _token()
    writer, reader = await stage.open_sandbox(), await stage.open_sandbox()
    if trouble := _trouble(await stage.run(writer, f"marker = '{first}{second}' * 3; seen(len(marker))")):
        return trouble
    later = await stage.open_sandbox()
    # the reader knows the first half and the digest of the second, so that it cannot find itself
    program = f"""
import hashlib
half, digest = b'{first}', '{hashlib.sha256(second.encode()).hexdigest()}'
with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb', buffering=0) as memory:
    for line in maps.read().splitlines():
        span, rights = line.split()[:2]
        start, end = (int(part, 16) for part in span.split('-'))
        if not rights.startswith('rw') or end - start > 1 << 28:
            continue
        memory.seek(start)
        try:
            data = memory.read(end - start)
        except OSError:
            continue
        seen('region'); at = data.find(half)
        while at >= 0:
            if hashlib.sha256(data[at + {len(first)}:at + {len(first) + len(second)}]).hexdigest() == digest:
                note(f'the marker is at {{hex(start + at)}}')
            at = data.find(half, at + 1)
"""
    for sandbox in (reader, later):
        finding = _judge(await stage.run(sandbox, program))
        if not finding.blocked:
            return finding
    return finding


async def _files_of_others(stage: Stage) -> Finding:
    """Files, an abstract socket and a terminal of one sandbox, looked for in another."""
    name = _token()
    folders = '("/tmp", "/workspace", "/home/user", "/dev/shm")'
    keeper, seeker = await stage.open_sandbox(), await stage.open_sandbox()
    program = f"""
for folder in {folders}: open(f'{{folder}}/{name}', 'w').write('x'); seen(folder)
listener = socket.socket(socket.AF_UNIX); listener.bind('\\0{name}'); listener.listen()
master, slave = os.openpty()
"""
    if trouble := _trouble(await stage.run(keeper, program)):
        return trouble
    program = f"""
for folder in {folders}: attempt(folder, lambda: os.stat(f'{{folder}}/{name}'), 'ENOENT')
attempt('abstract socket', lambda: socket.socket(socket.AF_UNIX).connect('\\0{name}'), 'ECONNREFUSED', 'EPERM')
attempt('terminal', lambda: os.open('/dev/pts/0', os.O_RDWR | os.O_NOCTTY), 'ENOENT')
"""
    return _judge(await stage.run(seeker, program))


async def _host_listeners(stage: Stage) -> Finding:
    """Sockets that listen on the host: an abstract one and a loopback port."""
    name = _token()
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket() as tcp:
        abstract.bind(f"\0{name}")
        abstract.listen()
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        program = f"""
attempt('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\\0{name}'), 'ECONNREFUSED', 'EPERM')
attempt('tcp', lambda: socket.create_connection(('127.0.0.1', {tcp.getsockname()[1]}), timeout=1))
"""
        return _judge(await stage.run(await stage.open_sandbox(), program))


async def _descriptor_flood(stage: Stage) -> Finding:
    """Descriptors sent along with honest frames must not arrive in the host."""
    sandbox, name = await stage.open_sandbox(), _token()
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
    arrived = _descriptors_of(name)
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


async def _judge_neighbour(stage: Stage, neighbour: Sandbox, check: str = "") -> Finding:
    try:
        return _judge(await stage.run(neighbour, f"{_ALIVE}{check}"))
    except Exception as error:  # noqa: BLE001  a neighbour that cannot be reached has been harmed
        return Finding(blocked=False, detail=f"the neighbour is gone: {error}")


def _judge(heard: Heard) -> Finding:
    return _trouble(heard) or heard.finding or Finding(blocked=False, detail="nothing was reported")


def _trouble(heard: Heard) -> Finding | None:
    """Why an execution does not count as blocked; None if it does."""
    if heard.error is not None:
        return Finding(blocked=False, detail=heard.error)
    if heard.outcome is not None:
        return Finding(blocked=False, detail=f"the sandbox ended: {heard.outcome}")
    return heard.finding if heard.finding is not None and not heard.finding.blocked else None


def _token() -> str:
    return f"mp{secrets.token_hex(6)}"  # 14 characters: a process name holds 15


def _processes_named(name: str) -> list[int]:
    pids: list[int] = []
    for entry in os.listdir("/proc"):  # noqa: PTH208  names only
        with contextlib.suppress(OSError, ValueError):
            if Path(f"/proc/{int(entry)}/comm").read_text(encoding="utf-8").strip() == name:
                pids.append(int(entry))
    return pids


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def _descriptors_of(name: str) -> int:
    """How many of our own descriptors are of a file called `name`."""
    links: list[str] = []
    for fd in os.listdir("/proc/self/fd"):  # noqa: PTH208  names only
        with contextlib.suppress(OSError):
            links.append(os.readlink(f"/proc/self/fd/{fd}"))  # noqa: PTH115
    return sum(name in link for link in links)


SCENES: Final[tuple[AnyProbe, ...]] = (
    Scene(probe_id="host-kernel-uid", claim="C-ID-1", title="run as the host's root", play=_kernel_uid),
    Scene(probe_id="host-daemons-end", claim="C-PROC-3", title="outlive the sandbox", play=_daemons_end),
    Scene(probe_id="host-kill-group", claim="C-PROC-1", title="kill neighbours by process group", play=_kill_group),
    Scene(
        probe_id="host-starve-processes",
        claim="C-LIM-5",
        title="use up a neighbour's processes",
        play=_starve_processes,
    ),
    Scene(probe_id="host-starve-inotify", claim="C-LIM-5", title="use up a neighbour's inotify", play=_starve_inotify),
    Scene(probe_id="host-zygote-memory", claim="C-RES-2", title="read another's code in memory", play=_zygote_memory),
    Scene(
        probe_id="host-files-of-others", claim="C-RES-2", title="find files of another sandbox", play=_files_of_others
    ),
    Scene(probe_id="host-listeners", claim="C-NET-2", title="connect to a socket on the host", play=_host_listeners),
    Scene(
        probe_id="host-descriptor-flood",
        claim="C-CHAN-2",
        title="fill the host with descriptors",
        play=_descriptor_flood,
    ),
    Scene(probe_id="host-forged-identity", claim="C-CHAN-3", title="speak as another sandbox", play=_forged_identity),
)
