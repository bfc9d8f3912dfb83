"""A copy of what organisations own in a data folder, while a service uses it. Blocking.

The service's database comes first, then everything else, so that every key in the copy has its record in the copied
journal. SQLite files are copied by SQLite, each as it is at one moment; a copy is checked before it counts.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import Fault, InputError, MoonpoolError
from moonpool.store.paths import database_path, tenant_dirs

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIRST_BYTES: Final = b"SQLite format 3\0"
_ASIDE: Final = ("-wal", "-shm", "-journal")
_PAGES: Final = 256
_BUSY_S: Final = 30.0


class BackupError(MoonpoolError):
    """The backup could not be made whole. What there is of it must not be used."""

    code = "backup_failed"
    fault = Fault.HOST


def back_up(data: Path, target: Path) -> int:
    """Copy private files of all tenants of `data` into the new folder `target`; returns how many.

    Raises InputError when there is something at `target`, BackupError.

    SECURITY: `target` is closed to others, as what is private in it is: journals, sealed secrets, hashes of keys.
    """
    if any(target.resolve().is_relative_to(tenant.resolve() / "private") for tenant in tenant_dirs(data)):
        raise BackupError(f"{target} lies in what is backed up; name a folder elsewhere")
    try:
        target.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise InputError(
            f"{target} is there already, and a backup is never written over another; name a new folder"
        ) from None
    except OSError as error:
        raise BackupError(f"{target} cannot be made: {error.strerror}; choose another folder") from error
    try:
        count = 0
        for source in _files(data):
            place = target / source.relative_to(data)
            for folder in reversed([one for one in place.parents if one.is_relative_to(target)]):
                if not folder.exists():  # as open as it was: restored, sandboxes must pass through it
                    folder.mkdir(mode=0o700)
                    folder.chmod(stat.S_IMODE((data / folder.relative_to(target)).stat().st_mode) & 0o755)
            try:
                _copy(source, place)
                count += 1
            except FileNotFoundError:  # a file that was removed meanwhile is not missed
                place.unlink(missing_ok=True)
    except (OSError, sqlite3.Error) as error:
        raise BackupError(
            f"the backup into {target} failed: {error}; remove that folder, mend this, and try again"
        ) from error
    return count


def _files(data: Path) -> Iterator[Path]:
    first = database_path(data)
    if first.is_file():
        yield first
    for tenant in tenant_dirs(data):
        for folder, _, names in os.walk(tenant / "private"):
            for path in (Path(folder, name) for name in sorted(names)):
                if path != first and not _is_aside(path):
                    yield path


def _is_aside(path: Path) -> bool:
    """Whether it is a database's; a file of a skill may be called so, too."""
    ends = [end for end in _ASIDE if path.name.endswith(end)]
    with suppress(OSError):
        return any(_is_database(path.with_name(path.name.removesuffix(end))) for end in ends)
    return False


def _is_database(path: Path) -> bool:
    with path.open("rb") as opened:
        return opened.read(len(_FIRST_BYTES)) == _FIRST_BYTES


def _copy(source: Path, place: Path) -> None:
    if not stat.S_ISREG(source.lstat().st_mode):
        return
    is_database = _is_database(source)
    place.touch(mode=0o600, exist_ok=False)
    if not is_database:
        shutil.copyfile(source, place, follow_symlinks=False)
        return
    address = f"{source.absolute().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(address, uri=True, timeout=_BUSY_S)) as from_,
        closing(sqlite3.connect(place, timeout=_BUSY_S)) as to,
    ):
        from_.backup(to, pages=_PAGES, sleep=0.01)
        to.execute("PRAGMA journal_mode=DELETE")  # one file, without another beside it
        (found,) = to.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise BackupError(f"{source} is damaged: {found}; restore an earlier backup")
