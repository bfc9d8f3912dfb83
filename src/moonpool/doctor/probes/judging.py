"""Shared by scenes: whether an execution counts as blocked, a neighbour's health, and checks from the host."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.doctor.probes.record import Finding

if TYPE_CHECKING:
    from moonpool.doctor.probes.record import Heard, Stage
    from moonpool.sandboxes.base import Sandbox

ALIVE: Final = "seen('alive')\nif in_child(lambda: 7) != 7:\n    note('it cannot fork')\n"


async def judge_neighbour(stage: Stage, neighbour: Sandbox, check: str = "") -> Finding:
    """Whether a sandbox beside the attacker still works. `check` is additional code for it to run."""
    try:
        return judge(await stage.run(neighbour, f"{ALIVE}{check}"))
    except Exception as error:  # noqa: BLE001  a neighbour that cannot be reached has been harmed
        return Finding(blocked=False, detail=f"the neighbour is gone: {error}")


def judge(heard: Heard) -> Finding:
    """The attacker's own verdict, or why there is none."""
    return trouble(heard) or heard.finding or Finding(blocked=False, detail="nothing was reported")


def trouble(heard: Heard) -> Finding | None:
    """Why an execution does not count as blocked; None if it does."""
    if heard.error is not None:
        return Finding(blocked=False, detail=heard.error)
    if heard.outcome is not None:
        return Finding(blocked=False, detail=f"the sandbox ended: {heard.outcome}")
    return heard.finding if heard.finding is not None and not heard.finding.blocked else None


def token() -> str:
    """A name that is unique on this machine."""
    return f"mp{secrets.token_hex(6)}"  # 14 characters: a process name holds 15


def processes_named(name: str) -> list[int]:
    """Processes of this machine called `name`."""
    pids: list[int] = []
    for entry in os.listdir("/proc"):  # noqa: PTH208  names only
        with contextlib.suppress(OSError, ValueError):
            if Path(f"/proc/{int(entry)}/comm").read_text(encoding="utf-8").strip() == name:
                pids.append(int(entry))
    return pids


def status_of(pid: int) -> dict[str, str]:
    """A process's status from the host's Linux kernel."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def descriptors_of(name: str) -> int:
    """How many of our own descriptors are of a file called `name`."""
    links: list[str] = []
    for fd in os.listdir("/proc/self/fd"):  # noqa: PTH208  names only
        with contextlib.suppress(OSError):
            links.append(os.readlink(f"/proc/self/fd/{fd}"))  # noqa: PTH115
    return sum(name in link for link in links)
