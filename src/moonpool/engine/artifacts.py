"""How much the artifact files of executions may take, so that no session fills the disk that the journal lies on.

One folder per run, below one private folder. `moonpool.engine.output` writes what code printed,
`engine.files.created_files` the files that it made; both ask here before each write.

Five bounds: a stream has `artifact_bytes_max` (more ends the execution), a session `artifact_session_bytes_max`, all
of a tenant `artifact_total_bytes_max`, what all tenants keep `kept_bytes_max` (`moonpool.store.disk_room`), and
`artifact_free_bytes_min` stay free on the disk whoever fills it. Above one of the last four the artifact is given up,
never the execution.

After an execution that wrote one, the oldest make room until a quarter of the total is free for those under way.
Several processes share the folder: each counts what it found when it last looked and what it wrote since. None knows
what others are writing: an artifact may make room while its execution goes on, whose envelope then says so.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Collection

    from moonpool.settings import Settings
    from moonpool.store.disk_room import DiskRoom

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactLimits:
    """Bounds on the artifact files, in bytes. Defaults: `docs/reference/settings.md`."""

    session_bytes_max: int
    total_bytes_max: int
    free_bytes_min: int

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Those of an operator."""
        return cls(
            session_bytes_max=settings.artifact_session_bytes_max,
            total_bytes_max=settings.artifact_total_bytes_max,
            free_bytes_min=settings.artifact_free_bytes_min,
        )


class Artifacts:
    """The artifact files of one tenant's executions. Used on one event loop."""

    def __init__(self, folder: Path, limits: ArtifactLimits, room: DiskRoom | None = None) -> None:
        """`room` is the bound above all tenants."""
        self.folder, self.limits, self._room = folder, limits, room
        self._total = 0  # bytes in the folder, as far as is known here
        self._written = 0  # bytes that were ever granted here, to know what came while the folder was measured
        self._sessions: Counter[str] = Counter()
        self._open = set[str]() if room is None else room.open_runs  # that go on; their folders are not removed

    def of_run(self, run_id: str, session_id: str) -> ArtifactsOfRun:
        """The files of one execution. `make_room` or `close` ends it."""
        return ArtifactsOfRun(self, run_id, session_id)

    def forget(self, session_id: str) -> None:
        """The session is closed."""
        self._sessions.pop(session_id, None)

    def grant(self, run_id: str, session_id: str, count: int) -> str:
        """Count `count` bytes that are about to be written; or say, as part of a sentence, why they may not be."""
        limits = self.limits
        if self._sessions[session_id] + count > limits.session_bytes_max:
            return (
                f"the artifacts of this session would be larger than {_size(limits.session_bytes_max)} "
                "(artifact_session_bytes_max); open a new session"
            )
        if self._total + count > limits.total_bytes_max:
            return (
                f"all artifacts would be larger than {_size(limits.total_bytes_max)} (artifact_total_bytes_max); "
                "run it again when executions under way have ended"
            )
        if _free(self.folder) - count < limits.free_bytes_min:
            return f"less than {_size(limits.free_bytes_min)} is free on the disk (artifact_free_bytes_min)"
        if self._room is not None and (problem := self._room.take(count)):
            return f"{problem}; run it again when older ones have made room"
        self._open.add(run_id)
        self._sessions[session_id] += count
        self._total += count
        self._written += count
        return ""

    def give_back(self, session_id: str, count: int) -> None:
        """What was granted for a file is free again: the file is removed."""
        self._total -= count
        if self._room is not None:
            self._room.give_back(count)
        if session_id in self._sessions:
            self._sessions[session_id] -= count

    def close(self, run_id: str) -> None:
        """The run writes no more."""
        self._open.discard(run_id)

    async def make_room(self) -> None:
        """Remove the oldest until a quarter of the total is free."""
        before = self._written
        left = await asyncio.to_thread(
            remove_oldest, self.folder, bytes_max=self.limits.total_bytes_max * 3 // 4, spare=frozenset(self._open)
        )
        if left is not None:
            self._total = left + self._written - before


class ArtifactsOfRun:
    """What one execution may write, and where."""

    def __init__(self, artifacts: Artifacts, run_id: str, session_id: str) -> None:
        self._artifacts, self._run_id, self._session_id = artifacts, run_id, session_id

    def path(self, name: str) -> Path:
        """The file of one stream, or a folder. Nothing is made yet."""
        return Path(self._artifacts.folder, self._run_id, name)

    def grant(self, count: int) -> str:
        """See `Artifacts.grant`."""
        return self._artifacts.grant(self._run_id, self._session_id, count)

    def give_back(self, count: int) -> None:
        """See `Artifacts.give_back`."""
        self._artifacts.give_back(self._session_id, count)

    async def keep(self, name: str, content: bytes) -> str:
        """Write a file as a whole; where it is, or why there is none, as the end of a sentence."""
        path = self.path(name)
        if not (why := self.grant(len(content))):
            try:
                await asyncio.to_thread(_write_new, path, content)
                return f"all of it: {path}"
            except OSError as error:
                why = error.strerror or type(error).__name__
                self.give_back(len(content))
        return f"it could not be kept: {why}"


def _write_new(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        path.write_bytes(content)
    except OSError:  # a part of it would be taken for the whole
        path.unlink(missing_ok=True)
        raise


def remove_oldest(folder: Path, *, bytes_max: int, spare: Collection[str] = ()) -> int | None:
    """Remove whole runs but those in `spare`, the oldest first, until at most `bytes_max` are left.

    Return how many bytes are left; None when that is not known. Blocking: call from a worker thread.
    """
    runs: list[tuple[float, int, Path]] = []
    try:
        found = list(folder.iterdir())
    except OSError:
        return None  # there is none
    for run in found:
        with suppress(OSError):  # another process removes it right now, or it is no folder: it holds up nothing
            sizes = [file.stat().st_size for file in run.rglob("*") if file.is_file()]
            runs.append((run.stat().st_mtime, sum(sizes), run))
    total = sum(size for _, size, _ in runs)
    for _, size, run in sorted(runs):
        if total <= bytes_max:
            break
        if run.name not in spare:
            shutil.rmtree(run, ignore_errors=True)
            total -= size
    return total


def _free(folder: Path) -> int:
    """Bytes that an ordinary user may still write where `folder` is, or will be made."""
    while True:
        try:
            disk = os.statvfs(folder)
        except FileNotFoundError:
            folder = folder.parent
            continue
        except OSError:
            return 0
        return disk.f_bavail * disk.f_frsize


def _size(count: int) -> str:
    return f"{count // _MIB:,} MiB" if count >= _MIB else f"{count:,} bytes"
