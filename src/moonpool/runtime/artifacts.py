"""How much the artifact files of all executions may take: the oldest go first.

One folder per run, below one private folder; `moonpool.runtime.output` writes them. Without a bound, code that prints
32 MiB at a time would fill the disk. Blocking: call from a worker thread. Several processes may do this at once.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

ARTIFACTS_BYTES_MAX: Final = 2 * 1024**3


def remove_oldest(folder: Path, *, bytes_max: int = ARTIFACTS_BYTES_MAX) -> None:
    """Remove whole runs, the oldest first, until at most `bytes_max` are left."""
    runs: list[tuple[float, int, Path]] = []
    try:
        for run in folder.iterdir():
            sizes = [file.stat().st_size for file in run.iterdir()]
            runs.append((run.stat().st_mtime, sum(sizes), run))
    except OSError:
        return  # there is none, or another process removes some right now
    total = sum(size for _, size, _ in runs)
    for _, size, run in sorted(runs):
        if total <= bytes_max:
            return
        shutil.rmtree(run, ignore_errors=True)
        total -= size
