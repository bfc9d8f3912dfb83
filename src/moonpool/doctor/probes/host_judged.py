"""Attacks that only the host can judge: it looks at its own processes, or at a neighbour of the attacker."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.doctor.probes.judging import judge, judge_neighbour, processes_named, status_of, token, trouble
from moonpool.doctor.probes.record import AnyProbe, Finding, HostProbe

if TYPE_CHECKING:
    from moonpool.doctor.probes.record import Stage


async def _kernel_uid(stage: Stage) -> Finding:
    """The attacker's uid for the host's Linux kernel."""
    sandbox = await stage.open_sandbox()
    name = token()
    if found := trouble(await stage.run(sandbox, f"seen('named'); _libc.prctl(15, ctypes.c_char_p(b'{name}'))")):
        return found
    pids = processes_named(name)
    if not pids:
        return Finding(blocked=False, detail="the sandbox's process was not found on this machine")
    status = status_of(pids[0])
    uids, no_new_privileges = status["Uid"].split(), status["NoNewPrivs"].strip()
    blocked = "0" not in uids and no_new_privileges == "1" and int(status["CapEff"], 16) == 0
    return Finding(blocked=blocked, detail=f"uids {' '.join(uids)}, CapEff {status['CapEff'].strip()}")


async def _daemons_end(stage: Stage) -> Finding:
    """A daemon that ignores all signals, left by a closed sandbox."""
    sandbox, name = await stage.open_sandbox(), token()
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
    if found := trouble(await stage.run(sandbox, program)):
        return found
    before = len(processes_named(name))
    await sandbox.close()
    after = len(processes_named(name))
    return Finding(blocked=before == 1 and after == 0, detail=f"{before} before, {after} after")


async def _crowd_ends(stage: Stage) -> Finding:
    """Spinning, stopped and memory-holding children, left by a closed sandbox."""
    sandbox, name = await stage.open_sandbox(), token()
    program = f"""
heard, ready = os.pipe()
for number in range(12):
    if os.fork() == 0:
        _libc.prctl(15, ctypes.c_char_p(b'{name}'))
        held = bytearray(4 << 20) if number % 3 == 0 else None
        os.write(ready, b'x')
        if number % 3 == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        while True:
            pass
for _ in range(12):
    os.read(heard, 1)
seen('crowd')
"""
    if found := trouble(await stage.run(sandbox, program)):
        return found
    before = len(processes_named(name))
    await sandbox.close()
    after = len(processes_named(name))
    return Finding(blocked=before == 12 and after == 0, detail=f"{before} before, {after} after")


async def _kill_group(stage: Stage) -> Finding:
    """kill(0) reaches the whole process group, across pid namespaces."""
    attacker, neighbour = await stage.open_sandbox(), await stage.open_sandbox()
    program = "seen('sent')\nfor target in (0, -1):\n    try: os.kill(target, signal.SIGKILL)\n    except OSError: pass"
    await stage.run(attacker, program)
    return await judge_neighbour(stage, neighbour)


async def _starve(stage: Stage, program: str, check: str) -> Finding:
    attacker, neighbour = await stage.open_sandbox(), await stage.open_sandbox()
    if found := trouble(await stage.run(attacker, program)):
        return found
    return await judge_neighbour(stage, neighbour, check)


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


async def _zygote_memory(stage: Stage) -> Finding:
    """A marker in the code of one sandbox, searched for in the memory of the next one."""
    first, second = token(), token()
    writer, reader = await stage.open_sandbox(), await stage.open_sandbox()
    if found := trouble(await stage.run(writer, f"marker = '{first}{second}' * 3; seen(len(marker))")):
        return found
    later = await stage.open_sandbox()
    # the reader knows the first half and the digest of the second, so that it cannot find itself
    program = f"""
import hashlib
import os
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
        finding = judge(await stage.run(sandbox, program))
        if not finding.blocked:
            return finding
    return finding


async def _files_of_others(stage: Stage) -> Finding:
    """Files, an abstract socket and a terminal of one sandbox, searched for in another."""
    name = token()
    folders = '("/tmp", "/workspace", "/home/user", "/data", "/dev/shm")'
    keeper, seeker = await stage.open_sandbox(), await stage.open_sandbox()
    program = f"""
for folder in {folders}: open(f'{{folder}}/{name}', 'w').write('x'); seen(folder)
listener = socket.socket(socket.AF_UNIX); listener.bind('\\0{name}'); listener.listen()
master, slave = os.openpty()
"""
    if found := trouble(await stage.run(keeper, program)):
        return found
    program = f"""
for folder in {folders}: attempt(folder, lambda: os.stat(f'{{folder}}/{name}'), 'ENOENT')
attempt('abstract socket', lambda: socket.socket(socket.AF_UNIX).connect('\\0{name}'), 'ECONNREFUSED', 'EPERM')
attempt('terminal', lambda: os.open('/dev/pts/0', os.O_RDWR | os.O_NOCTTY), 'ENOENT')
"""
    return judge(await stage.run(seeker, program))


async def _temporary_files_of_host(stage: Stage) -> Finding:
    """Files in world-writable folders of the host."""
    places: list[Path] = []
    try:
        for folder in filter(_is_writable, ("/tmp", "/var/tmp", "/dev/shm")):  # noqa: S108  of the host
            with tempfile.NamedTemporaryFile(prefix=token(), dir=folder, delete=False) as file:
                places.append(Path(file.name))
                os.fchmod(file.fileno(), 0o644)
        program = "".join(f"attempt({str(path)!r}, lambda: os.stat({str(path)!r}), 'ENOENT')\n" for path in places)
        return judge(await stage.run(await stage.open_sandbox(), program))
    finally:
        for path in places:
            await asyncio.to_thread(path.unlink)


def _is_writable(folder: str) -> bool:
    return os.access(folder, os.W_OK)


async def _same_random(stage: Stage) -> Finding:
    """Random numbers of two sandboxes that come from the same zygote."""
    program = """
import random, secrets, tempfile, uuid
seen(str(random.random())); seen(secrets.token_hex(8)); seen(str(uuid.uuid4())); seen(os.urandom(8).hex())
seen(next(tempfile._get_candidate_names()))
if (numpy := sys.modules.get('numpy')) is not None: seen(str(numpy.random.random()))
"""
    one, other = await stage.open_sandbox(), await stage.open_sandbox()
    heard = [await stage.run(sandbox, program) for sandbox in (one, other)]
    if found := trouble(heard[0]) or trouble(heard[1]):
        return found
    words = [set(judge(each).detail.split(", ")) for each in heard]
    shared = words[0] & words[1]
    return Finding(blocked=not shared and len(words[0]) >= 5, detail=f"{len(words[0])} numbers, {len(shared)} shared")


async def _host_listeners(stage: Stage) -> Finding:
    """Listening sockets of the host: an abstract one and a loopback port."""
    name = token()
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket() as tcp:
        abstract.bind(f"\0{name}")
        abstract.listen()
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        program = f"""
attempt('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\\0{name}'), 'ECONNREFUSED', 'EPERM')
attempt('tcp', lambda: socket.create_connection(('127.0.0.1', {tcp.getsockname()[1]}), timeout=1))
"""
        return judge(await stage.run(await stage.open_sandbox(), program))


SCENES: Final[tuple[AnyProbe, ...]] = (
    HostProbe(probe_id="host-kernel-uid", claim="C-ID-1", title="run as the host's root", play=_kernel_uid),
    HostProbe(probe_id="host-daemons-end", claim="C-PROC-3", title="outlive the sandbox", play=_daemons_end),
    HostProbe(
        probe_id="host-crowd-ends",
        claim="C-PROC-3",
        quick=False,
        title="outlive the sandbox as a crowd",
        play=_crowd_ends,
    ),
    HostProbe(probe_id="host-kill-group", claim="C-PROC-1", title="kill neighbours by process group", play=_kill_group),
    HostProbe(
        probe_id="host-starve-processes",
        claim="C-LIM-5",
        quick=False,
        title="use up a neighbour's processes",
        play=_starve_processes,
    ),
    HostProbe(
        probe_id="host-zygote-memory",
        claim="C-RES-2",
        quick=False,
        title="read another's code in memory",
        play=_zygote_memory,
    ),
    HostProbe(
        probe_id="host-files-of-others", claim="C-RES-2", title="find files of another sandbox", play=_files_of_others
    ),
    HostProbe(
        probe_id="host-listeners", claim="C-NET-2", title="connect to a socket on the host", play=_host_listeners
    ),
    HostProbe(
        probe_id="host-temporary-files",
        claim="C-FS-1",
        title="find files in the host's temporary folders",
        play=_temporary_files_of_host,
    ),
    HostProbe(probe_id="host-same-random", claim="C-RES-2", title="guess another's random numbers", play=_same_random),
)
