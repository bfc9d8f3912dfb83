"""A host process that a test ends at a named moment: `ending_host.py BACKEND STATE_DIR MOMENT`. Says on stdout when.

`idle`: sandboxes are open, in one a daemon. `opening`: a first one is about to be opened, again and again. `sending`: a
guest that does not read is being sent megabytes. `leaving`: all is closed in order, `closed` is said, the process ends.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from moonpool.sandboxes.base import SandboxSpec
from moonpool.sandboxes.bubblewrap import BubblewrapBackend
from moonpool.sandboxes.cgroups import open_groups
from moonpool.sandboxes.messages import ToolResult
from moonpool.sandboxes.zygote import ZygoteBackend
from sandboxes.images import image_of
from sandboxes.probe import Probe

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


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def host(name: str, folder: Path, moment: str) -> None:
    groups = await asyncio.to_thread(open_groups, "auto")
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
