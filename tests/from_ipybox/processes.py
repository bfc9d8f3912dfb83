"""Which processes a test has started."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def processes_with(value: str) -> set[str]:
    """The processes that have this environment value."""
    found: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"={value}\0".encode() in (process / "environ").read_bytes():
                found.add(process.name)
    return found
