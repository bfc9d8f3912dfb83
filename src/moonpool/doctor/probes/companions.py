"""Attacks from Node and Bash that the host judges: what they leave behind, and what they do to their own sandbox.

Node and Bash are child processes of PID 1 and talk to it over private links. Code can write anything to those links;
that may break its own execution, never another's.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from moonpool.doctor.probes.judging import judge_neighbour, processes_named, status_of, token, trouble
from moonpool.doctor.probes.record import AnyProbe, Finding, HostProbe

if TYPE_CHECKING:
    from moonpool.doctor.probes.record import Stage

_DAEMONS = {
    "node": """
fs.copyFileSync('/usr/bin/sleep', '/tmp/NAME');
fs.chmodSync('/tmp/NAME', 0o755);
for (let n = 0; n < 3; n += 1) {
  const child = spawn('/tmp/NAME', ['60'], { detached: true, stdio: 'ignore' });
  await event(child, 'spawn');
  child.unref();
  if (n === 2) process.kill(child.pid, 'SIGSTOP');
}
seen('daemons');
""",
    "bash": """
cp /usr/bin/sleep /tmp/NAME
for n in 1 2 3; do (trap '' HUP INT TERM; exec setsid /tmp/NAME 60) >/dev/null 2>&1 & done
for try in {1..500}; do
    count=0
    for entry in /proc/[0-9]*/comm; do [ "$(cat $entry 2>/dev/null)" = NAME ] && count=$((count + 1)); done
    [ $count = 3 ] && break
done
kill -STOP %3
seen daemons
""",
}
_MEDDLING = {
    "node": """
const squat = net.createServer((socket) => socket.end('lies'));
try { squat.listen('\\0moonpool'); } catch {}
for (const fd of [3, 4, 5])
  for (const lie of [Buffer.from('ffffffff00000000', 'hex'), Buffer.from('{"t":"done"}'.repeat(1000))])
    try { fs.writeSync(fd, lie) } catch {}
process.kill(1, 'SIGINT'); process.kill(1, 'SIGTERM'); process.kill(-1, 'SIGSTOP');
""",
    "bash": """
for fd in {3..255}; do printf 'D1 0 hB\\0%02000d' 0 >&$fd; done 2>/dev/null
kill -INT 1; kill -TERM 1; kill -USR1 1
kill -KILL -1
""",
}


async def _daemons_end(stage: Stage, language: str) -> Finding:
    """Daemons, one of them stopped, left by a closed sandbox; and their uid on the host."""
    sandbox, name = await stage.open_sandbox(), token()
    if found := trouble(await stage.run(sandbox, _DAEMONS[language].replace("NAME", name), language=language)):
        return found
    pids = processes_named(name)
    as_root = [pid for pid in pids if "0" in status_of(pid)["Uid"].split()]
    await sandbox.close()
    after = len(processes_named(name))
    blocked = len(pids) == 3 and after == 0 and not as_root
    return Finding(blocked=blocked, detail=f"{len(pids)} before, {after} after, {len(as_root)} as the host's root")


async def _meddling(stage: Stage, language: str) -> Finding:
    """Forged messages on the private link, a reused name, signals to everything: its own sandbox and a neighbour keep
    working.
    """
    sandbox, neighbour = await stage.open_sandbox(), await stage.open_sandbox()
    if found := trouble(await stage.run(sandbox, "kept = 4711; seen('kept')")):
        return found
    heard = await stage.run(sandbox, _MEDDLING[language], language=language)
    if heard.outcome is not None and heard.outcome.violation is None:
        return Finding(blocked=False, detail=f"the sandbox ended: {heard.outcome}")
    check = "seen('python')\nif kept != 4711: note('another value')"
    if "KeyboardInterrupt" in ((after := await stage.run(sandbox, check)).error or ""):
        after = await stage.run(sandbox, check)  # its own signal to PID 1 came late
    if found := trouble(after):
        return found
    return await judge_neighbour(stage, neighbour)


async def _fill_up(stage: Stage, language: str) -> Finding:
    """Processes started by another language count for the whole sandbox and do not affect others."""
    fill = {
        "node": "for (let n = 0; n < PROCESSES + 32; n += 1) {\n"
        "  const child = spawn('/usr/bin/sleep', ['20'], { stdio: 'ignore' });\n"
        "  child.on('error', () => {}); child.unref();\n  if (child.pid === undefined) { seen('EAGAIN'); break }\n}",
        "bash": "fill_processes; seen full",
    }
    sandbox, neighbour = await stage.open_sandbox(), await stage.open_sandbox()
    await stage.run(sandbox, fill[language], language=language)  # a full sandbox may lose its Node or Bash
    program = """
alive = sum(name.isdigit() for name in os.listdir('/proc'))
seen(f'{alive} processes')
if alive > PROCESSES + 16: note(f'{alive} processes, {PROCESSES} were promised')
if alive < PROCESSES // 2: note(f'only {alive} processes: nothing was filled')
"""
    if found := trouble(await stage.run(sandbox, program)):
        return found
    return await judge_neighbour(stage, neighbour)


def _host_probes(language: str) -> tuple[HostProbe, ...]:
    name = language.capitalize()
    return (
        HostProbe(
            probe_id=f"{language}-daemons-end",
            claim="C-PROC-3",
            title=f"outlive the sandbox as a daemon of {name}",
            play=functools.partial(_daemons_end, language=language),
            language=language,
            quick=False,
        ),
        HostProbe(
            probe_id=f"{language}-meddling",
            claim="C-LANG-2",
            title=f"from {name}: lie on the private link, signal everything, take the name for tool calls",
            play=functools.partial(_meddling, language=language),
            language=language,
        ),
        HostProbe(
            probe_id=f"{language}-fill-up",
            claim="C-LIM-1",
            title=f"from {name}: start more processes than all languages together may have",
            play=functools.partial(_fill_up, language=language),
            language=language,
            quick=False,
        ),
    )


COMPANIONS: Final[tuple[AnyProbe, ...]] = (*_host_probes("node"), *_host_probes("bash"))
