"""Which processes a test has started."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def processes_with(value: str, where: str = "environ") -> set[str]:
    """The processes that have this environment value, or argument (`cmdline`)."""
    found: set[str] = set()
    start = "=" if where == "environ" else "\0"
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{start}{value}\0".encode() in (process / where).read_bytes():
                found.add(process.name)
    return found
