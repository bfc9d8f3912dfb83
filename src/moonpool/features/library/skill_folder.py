"""Adding a skill: a person's folder becomes a copy in the library, with a record of it.

Reading the folder as a person has it on disk, before anything of it is kept, is blocking.

Left out, and named: whatever begins with a dot (`.git`, `.env`, `.DS_Store`) and `__pycache__`. Everything else must be
a plain file or a folder of them: a link, pipe, socket or device is refused, not skipped, because whoever put it there
meant something. Bytes are all that is taken: no owner, no time, no mode. Scripts are imported or given to an
interpreter, so nothing needs its executable bit.

SECURITY: every name is opened from the descriptor of the folder that it was listed in and no link is followed, so a
folder that changes meanwhile cannot lead out of itself. What is read is capped before it is held.
"""

from __future__ import annotations

import asyncio
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import InputError
from moonpool.features.library.model.bounds import BYTES_MAX, FILES_MAX
from moonpool.features.library.model.skills import skill_source

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.features.library.model.entries import LibraryEntry
    from moonpool.features.library.service import LibraryChanges

ENTRIES_MAX: Final = 2_000
"""Names looked at in all, those that are left out included."""
DEPTH_MAX: Final = 8
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_KINDS: Final = (
    (stat.S_ISLNK, "a symbolic link; put what it leads to in its place"),
    (stat.S_ISFIFO, "a pipe; remove it"),
    (stat.S_ISSOCK, "a socket; remove it"),
    (stat.S_ISBLK, "a device; remove it"),
    (stat.S_ISCHR, "a device; remove it"),
)


@dataclass(slots=True)
class SkillFolder:
    """The files of a folder by relative path, and what was left out."""

    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    left_out: list[str] = field(default_factory=list[str])


def read_skill_folder(folder: Path) -> SkillFolder:
    """Read all of it. Raises InputError, which names the first thing that cannot be taken."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # a link to it is the person's own
    except NotADirectoryError:
        raise InputError(f"{folder} is not a folder; give the folder that SKILL.md is in") from None
    except (OSError, ValueError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else "no path"
        raise InputError(f"{folder}: {reason.lower()}; give the folder that SKILL.md is in") from None
    reading = _Reading(folder)
    reading.walk(handle, "")
    return reading.found


class _Reading:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._looked_at = 0
        self._size = 0
        self.found = SkillFolder()

    def walk(self, handle: int, above: str) -> None:
        """Take what is in the folder behind `handle`, which is closed."""
        try:
            for name in self._names(handle, above):
                path = f"{above}{name}"
                if name.startswith(".") or name == "__pycache__":
                    self.found.left_out.append(path)
                    continue
                state = os.stat(name, dir_fd=handle, follow_symlinks=False)
                if stat.S_ISDIR(state.st_mode):
                    self._enter(handle, name, path)
                else:
                    self._take(handle, name, path, state.st_mode)
        except OSError as error:
            raise self._refused(above.rstrip("/") or ".", (error.strerror or str(error)).lower()) from None
        finally:
            os.close(handle)

    def _names(self, handle: int, above: str) -> list[str]:
        names: list[str] = []
        with os.scandir(handle) as entries:
            for entry in entries:
                self._looked_at += 1
                if self._looked_at > ENTRIES_MAX:
                    raise InputError(
                        f"{self._folder} holds more than {ENTRIES_MAX:,} files and folders; give a folder that holds"
                        " one skill and nothing else"
                    )
                try:
                    entry.name.encode()
                except UnicodeEncodeError:
                    raise self._refused(f"{above}{entry.name}", "its name is not UTF-8; rename it") from None
                names.append(entry.name)
        return sorted(names)

    def _enter(self, handle: int, name: str, path: str) -> None:
        if path.count("/") + 1 >= DEPTH_MAX:
            raise self._refused(path, f"it is {DEPTH_MAX} folders deep; put its files higher up")
        self.walk(os.open(name, _FOLDER, dir_fd=handle), f"{path}/")

    def _take(self, handle: int, name: str, path: str, mode: int) -> None:
        if not stat.S_ISREG(mode):
            kind = next((text for is_kind, text in _KINDS if is_kind(mode)), "no plain file; remove it")
            raise self._refused(path, f"it is {kind}")
        if len(self.found.files) >= FILES_MAX["skill"]:
            raise InputError(
                f"{self._folder} holds more than {FILES_MAX['skill']} files; a skill has at most that many"
            )
        with os.fdopen(os.open(name, _FILE, dir_fd=handle), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise self._refused(path, "it was put in the place of a plain file just now")
            content = file.read(BYTES_MAX["skill"] - self._size + 1)
        self._size += len(content)
        if self._size > BYTES_MAX["skill"]:
            raise InputError(
                f"{self._folder} holds more than {BYTES_MAX['skill']:,} bytes, which is what a skill may have; {path!r}"
                " is one too many"
            )
        self.found.files[path] = content

    def _refused(self, path: str, why: str) -> InputError:
        return InputError(f"{self._folder}: {path!r}: {why}")


@dataclass(frozen=True, kw_only=True)
class AddedSkill:
    """What was kept of a folder, and what of it was not."""

    entry: LibraryEntry
    left_out: tuple[str, ...]  # relative paths


async def add_skill(changes: LibraryChanges, folder: Path, *, replace: bool = False) -> AddedSkill:
    """Keep a copy of `folder`; later changes of it change nothing here.

    Raises InputError, StoreFolderError and JournalError; nothing was changed then.
    """
    found = await asyncio.to_thread(read_skill_folder, folder)
    source = skill_source(found.files, place=str(folder))
    entry = await changes.save(source, replace=replace)
    return AddedSkill(entry=entry, left_out=tuple(found.left_out))
