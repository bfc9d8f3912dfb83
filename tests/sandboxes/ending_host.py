"""A host process that a test ends at a named moment: `ending_host.py BACKEND STATE_DIR MOMENT`. Says on stdout when.

`enduring`: a sandbox is open, whose first process ends neither with its parent nor with its channel.
`idle`: sandboxes are open, in one a daemon. `opening`: a first one is about to be opened, again and again. `sending`: a
guest that does not read is being sent megabytes. `leaving`: all is closed in order, `closed` is said, the process ends.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from moonpool.sandboxes.base import SandboxSpec
from moonpool.sandboxes.bubblewrap import BubblewrapBackend
from moonpool.sandboxes.cgroups import open_groups
from moonpool.sandboxes.linked import LinkedSandbox
from moonpool.sandboxes.messages import ToolResult
from moonpool.sandboxes.zygote import ZygoteBackend
from sandboxes.images import image_of
from sandboxes.probe import Probe
from waiting import until

_DAEMON = """
import os, signal
for number in set(signal.Signals) - {9, 19}:
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True: signal.pause()
    os._exit(0)
"""


ENDURING = """
import os, threading
os.set_inheritable(3, True)
for _ in range(3):
    if os.fork() == 0: os.execv("/usr/bin/sleep", ["endures", "600"])
threading.Thread(target=os.execv, args=("/usr/bin/sleep", ["endures", "600"])).start()
threading.Event().wait()
"""
"""A thread that executes a program takes the place of the first, and has no parent-death signal."""


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def command_of(probe: Probe) -> bytes:
    """What the first process of a sandbox is called."""
    assert isinstance(probe.sandbox, LinkedSandbox)
    return Path(f"/proc/{probe.sandbox.host_pid}/cmdline").read_bytes().partition(b"\0")[0]


async def host(name: str, folder: Path, moment: str) -> None:
    limits = (
        "rlimits" if moment == "enduring" else "auto"
    )  # groups of a host that is gone are ended with what they hold
    groups = await asyncio.to_thread(open_groups, limits)
    kind = {"zygote": ZygoteBackend, "bubblewrap": BubblewrapBackend}[name]
    spec = SandboxSpec(image=await image_of("base"))
    backend = kind(folder, groups)
    while moment == "opening":
        await backend._starter.begin()
        say("opening")
        await backend.open_sandbox(spec)
        await backend.close()
        backend = kind(folder, groups)
    probes = [Probe(await backend.open_sandbox(spec)) for _ in range(2)]
    if moment == "enduring":
        probes[0].start(ENDURING)
        await until(lambda: command_of(probes[0]) == b"endures")
    else:
        await probes[0].run(_DAEMON)
    if moment == "sending":
        probes[1].start("import time\nprint('deaf')\ntime.sleep(600)")
        await probes[1].said("deaf")
        probes[1].sandbox.send(ToolResult(id=1), bytes(40 << 20))
    say(moment)
    if moment == "leaving":
        await backend.close()
        await groups.close()
        say("closed")
        return
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(host(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
