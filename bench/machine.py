"""What the figures were measured on, and with which versions."""

from __future__ import annotations

import datetime as dt
import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_NAMED = ("moonpool", "mcp", "ipybox", "ipykernel", "jupyter-client", "fastmcp", "pydantic-monty")


def describe_machine() -> dict[str, str | int | float]:
    """Facts that do not change during the run."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _cpu_model(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "linux": platform.release(),
        "python": platform.python_version(),
        "uid": os.geteuid(),
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
    }


def describe_versions() -> dict[str, str]:
    """Ours as installed, the peers' as locked, bubblewrap's as it says itself."""
    locked = "\n".join(path.read_text(encoding="utf-8") for path in sorted(_ROOT.glob("requirements/bench-*.txt")))
    found = {"moonpool": metadata.version("moonpool"), "mcp": metadata.version("mcp")}
    for name, version in re.findall(r"^([a-z0-9-]+)==([^\s\\;]+)", locked, flags=re.MULTILINE):
        if name in _NAMED:
            found.setdefault(name, version)
    found["bubblewrap"] = _said("bwrap", "--version").rpartition(" ")[2]
    found["node"] = _said("node", "--version")
    return {name: version for name, version in found.items() if version}


def _commit() -> str:
    """With `+` when files differ from it."""
    commit = _said("git", "-C", str(_ROOT), "rev-parse", "--short", "HEAD")
    changed = _said("git", "-C", str(_ROOT), "status", "--porcelain", "--untracked-files=no")
    return f"{commit}{'+' if changed else ''}" or "unknown"


def _said(*command: str) -> str:
    try:
        ended = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stdout.strip() if ended.returncode == 0 else ""


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"model name", "Model", "Hardware"}:
            return value.strip()
    return platform.machine()
