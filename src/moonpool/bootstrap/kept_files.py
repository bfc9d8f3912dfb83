"""The bound on what the tenants of an installation keep on the disk together, and who gives way when it is short."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from moonpool.bootstrap.recordings import make_sealer
from moonpool.core.shares import fair_share
from moonpool.engine.artifacts import remove_oldest
from moonpool.features.recordings.table import RecordingsFile
from moonpool.store.disk_room import DiskRoom
from moonpool.store.paths import (
    approvals_path,
    artifacts_dir,
    outcomes_dir,
    plans_path,
    recordings_path,
    tenant_dirs,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from moonpool.settings import Settings


def make_disk_room(settings: Settings, data: Path, environ: Mapping[str, str]) -> DiskRoom:
    """The bound of one process; it counts every tenant that has files here, open or not."""

    def sweep(bytes_max: int, spare: AbstractSet[str]) -> int:
        sizes = {home: _size(home) for home in tenant_dirs(data)}
        share = fair_share(sizes.values(), bytes_max)
        for home, size in sizes.items():
            if size > share:
                _shrink(home, size - int(share), spare)
                sizes[home] = _size(home)
        return sum(sizes.values())

    def _shrink(home: Path, excess: int, spare: AbstractSet[str]) -> None:
        """Artifacts and recordings make room by what each has. Plans, approvals and outcomes wait for somebody."""
        artifacts, recordings = _tree_size(artifacts_dir(home)), _file_size(recordings_path(home))
        left = max(0.0, 1 - excess / max(1, artifacts + recordings))
        remove_oldest(artifacts_dir(home), bytes_max=int(artifacts * left), spare=spare)
        if recordings:
            file = RecordingsFile(recordings_path(home), make_sealer(home, environ))
            try:
                file.tidy(days=settings.recording_days, bytes_max=int(recordings * left))
            finally:
                file.close()

    return DiskRoom(settings.kept_bytes_max, sweep)


def _size(home: Path) -> int:
    files = sum(_file_size(path) for path in (recordings_path(home), plans_path(home), approvals_path(home)))
    return files + _tree_size(artifacts_dir(home)) + _tree_size(outcomes_dir(home))


def _file_size(path: Path) -> int:
    """Of an SQLite file, with its write-ahead log."""
    return _size_of(path) + _size_of(path.with_name(f"{path.name}-wal"))


def _tree_size(folder: Path) -> int:
    return sum(_size_of(Path(parent, name)) for parent, _, names in os.walk(folder) for name in names)


def _size_of(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0  # it is removed right now
