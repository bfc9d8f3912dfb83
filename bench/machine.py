"""What the figures were measured on."""

from __future__ import annotations

import datetime as dt
import os
import platform
from pathlib import Path


def describe_machine() -> dict[str, str | int | float]:
    """Facts that do not change during the run."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _cpu_model(),
        "linux": platform.release(),
        "python": platform.python_version(),
        "uid": os.geteuid(),
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"model name", "Model", "Hardware"}:
            return value.strip()
    return platform.machine()
