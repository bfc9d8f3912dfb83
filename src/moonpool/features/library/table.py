"""Saved actions and skills on disk: one private file per entry, replaced whole.

`actions/<name>.json` and `skills/<name>.json` below one folder. A file that is damaged, too large, a link or somebody
else's loses its own entry only, and says so. Several processes may change the folder; each change is made under a lock,
as `moonpool.features.library.transactions` says. Blocking: call from a worker thread.

SECURITY: only a person's command writes here; no sandbox sees the folder, and no face has a use case that writes it.
What is read is typed again, and its digest compared: a file that was changed by other means is not used.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import InputError
from moonpool.features.library.model.bounds import (
    BYTES_MAX,
    ENTRIES_MAX,
    KINDS,
    LIBRARY_BYTES_MAX,
    ROOTS,
    check_name,
    clash,
)
from moonpool.features.library.model.change import LibraryChange
from moonpool.features.library.model.entries import LibrarySource
from moonpool.features.library.transactions import ChangesInHand
from moonpool.store.private_files import StoreFolderError, create_private_file, private_folder, read_own_file

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

    from moonpool.core.json import JsonValue
    from moonpool.features.library.model.bounds import Kind
    from moonpool.features.library.model.change import ChangeAction, LibraryObserver

FORMAT: Final = 1
FILE_BYTES_MAX: Final = BYTES_MAX["skill"] * 4 // 3 + 128 * 1024
_ENDING: Final = ".json"
_CHANGES: Final = ".changes"  # locked by who changes something; grows with each change


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryProblem:
    """Why one entry is not there."""

    kind: Kind
    name: str  # as its file is called; not checked
    text: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name[:100]!r} is left out: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryFiles:
    """What is kept, by kind and name, and what could not be read."""

    sources: tuple[LibrarySource, ...] = ()
    problems: tuple[LibraryProblem, ...] = ()


class _Nobody:
    """Puts nothing on record."""

    principal = ""

    def begins(self, change: LibraryChange, /) -> None: ...
    def has_ended(self, _change: LibraryChange, /) -> bool:
        return False

    def ended(self, change: LibraryChange, /, *, error_type: str = "", settled: bool = False) -> None: ...


NOBODY: Final = _Nobody()


class LibraryStore:
    """Sources below one private folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._changes = folder, ChangesInHand(folder)
        self._looked_at = [
            (str(folder / _CHANGES), "st_size"),
            *((str(folder / ROOTS[kind]), "st_mtime_ns") for kind in KINDS),
        ]

    def load(self) -> LibraryFiles:
        """All that can be read; at most `ENTRIES_MAX` of each kind and `LIBRARY_BYTES_MAX` in all."""
        return gathered({(kind, name): self._read(kind, name) for kind in KINDS for name in self._names(kind)})

    def find(self, kind: Kind, name: str) -> LibrarySource | None:
        """One entry, or None. Raises InputError for a name that cannot be one, and when it is there but damaged."""
        check_name(kind, name)
        found = self._read(kind, name)
        if isinstance(found, str):
            if not os.path.lexists(self._path(kind, name)):
                return None
            raise InputError(f"{kind} {name!r} cannot be read: {found}")
        return found

    def save(
        self, source: LibrarySource, *, replace: bool = False, records: LibraryObserver = NOBODY
    ) -> LibrarySource | None:
        """Keep `source`, on record; return what it replaced.

        Raises InputError when the name is taken, clashes or the library is full, StoreFolderError, and what `records`
        raises; nothing was changed then.
        """
        with self._locked():
            self._settle(records)
            path = self._path(source.kind, source.name)
            names = self._names(source.kind)
            before = replaced(source, self.load(), count=len(names), exists=os.path.lexists(path), replace=replace)
            change = change_of(source.kind, source.name, before, source, records)
            self._changes.carry_out(change, path, content_of(source), records)
        return before

    def remove(self, kind: Kind, name: str, *, records: LibraryObserver = NOBODY) -> LibrarySource | None:
        """Forget an entry, on record; also a damaged one, of which nothing is returned.

        Raises InputError when there is none, StoreFolderError, and what `records` raises; nothing was changed then.
        """
        path = self._path(kind, name)
        with self._locked():
            self._settle(records)
            if not os.path.lexists(path):
                raise missing(kind, name)
            found = self._read(kind, name)
            before = found if isinstance(found, LibrarySource) else None
            self._changes.carry_out(change_of(kind, name, before, None, records), path, None, records)
        return before

    def settle(self, records: LibraryObserver) -> LibraryChange | None:
        """Put on record what came of a change whose process died; None when there is none, or somebody is at it.

        Raises StoreFolderError and what `records` raises.
        """
        if not self._changes.waiting():
            return None
        try:
            with self._locked(wait=False):
                return self._settle(records)
        except BlockingIOError:
            return None

    def _settle(self, records: LibraryObserver) -> LibraryChange | None:
        return self._changes.settle(lambda one: self._path(one.kind, one.name), self._digest_of, records)

    def _digest_of(self, change: LibraryChange) -> str:
        found = self._read(change.kind, change.name)
        return found.digest if isinstance(found, LibrarySource) else ""

    def stamp(self) -> tuple[int, ...]:
        """Changes whenever the library does. Three `stat` calls: cheap enough to be asked before every execution."""
        return tuple(_state_of(path, member) for path, member in self._looked_at)

    async def has_moved(self, stamp: object) -> bool:
        """Whether it changed since."""
        return self.stamp() != stamp

    def _names(self, kind: Kind) -> list[str]:
        try:
            found = [path.name for path in (self._folder / ROOTS[kind]).iterdir()]
        except OSError:
            return []
        return sorted(name.removesuffix(_ENDING) for name in found if name.endswith(_ENDING) and name[0] != ".")

    def _read(self, kind: Kind, name: str) -> LibrarySource | str:
        """The entry, or why it cannot be used."""
        try:
            content = read_own_file(self._folder / ROOTS[kind] / f"{name}{_ENDING}", bytes_max=FILE_BYTES_MAX)
        except OSError as error:
            return f"its file cannot be read ({error.strerror or error})"
        except ValueError as error:
            return f"its file is damaged ({error}); save it again or remove it"
        return source_of(kind, name, content)

    def _path(self, kind: Kind, name: str) -> Path:
        return self._folder / ROOTS[kind] / f"{check_name(kind, name)}{_ENDING}"

    @contextmanager
    def _locked(self, *, wait: bool = True) -> Generator[None]:
        """Hold the folder's lock; the kernel lets go of it when the process dies.

        Raises StoreFolderError, and BlockingIOError when somebody else holds it and `wait` is false.
        """
        try:
            private_folder(self._folder)
            for kind in KINDS:
                private_folder(self._folder / ROOTS[kind])
            lock = self._folder / _CHANGES
            create_private_file(lock)
            handle = os.open(lock, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise StoreFolderError(f"{self._folder} cannot be locked: {error.strerror or error}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(handle, b".")  # a full disk is found out while nothing has changed
            yield
            with suppress(OSError):  # the folder's own time has moved; what was changed is not taken back
                os.write(handle, b".")  # two changes within one tick of the file system's clock are two
        except BlockingIOError:
            raise
        except OSError as error:
            raise StoreFolderError(f"{self._folder} cannot be changed: {error.strerror or error}") from error
        finally:
            os.close(handle)


def gathered(read: Mapping[tuple[Kind, str], LibrarySource | str]) -> LibraryFiles:
    """What of this can stand together; a text says why an entry could not be read. In the order of kinds and names."""
    sources: list[LibrarySource] = []
    problems: list[LibraryProblem] = []
    size = 0
    counts: Counter[Kind] = Counter()
    for (kind, name), source in read.items():
        counts[kind] += 1
        if isinstance(source, LibrarySource):
            reason = clash(kind, name, [one.name for one in sources if one.kind == kind])
            if counts[kind] > ENTRIES_MAX:
                reason = f"there are more than {ENTRIES_MAX}; remove some"
            elif size + source.size > LIBRARY_BYTES_MAX:
                reason = f"the library is larger than {LIBRARY_BYTES_MAX:,} bytes; remove something"
        else:
            reason = source
        if reason or isinstance(source, str):
            problems.append(LibraryProblem(kind=kind, name=name, text=reason))
            continue
        size += source.size
        sources.append(source)
    return LibraryFiles(sources=tuple(sources), problems=tuple(problems))


def replaced(
    source: LibrarySource, kept: LibraryFiles, *, count: int, exists: bool, replace: bool
) -> LibrarySource | None:
    """What `source` takes the place of; `count` are there of its kind. Raises InputError when it cannot be kept."""
    same_kind = [one for one in kept.sources if one.kind == source.kind]
    before = next((one for one in same_kind if one.name == source.name), None)
    if not replace and exists:
        raise InputError(f"{source.kind} {source.name!r} exists already; --replace replaces it")
    if reason := clash(source.kind, source.name, [one.name for one in same_kind]):
        raise InputError(f"{source.kind} {source.name!r} cannot be kept: {reason}; choose another name")
    if before is None and count >= ENTRIES_MAX:
        raise InputError(f"there are {ENTRIES_MAX} {ROOTS[source.kind]} already; remove one first")
    size = sum(one.size for one in kept.sources if one is not before)
    if size + source.size > LIBRARY_BYTES_MAX:
        raise InputError(f"the library would be larger than {LIBRARY_BYTES_MAX:,} bytes; remove something first")
    return before


def missing(kind: Kind, name: str) -> InputError:
    return InputError(f"there is no {kind} {name!r}; `moonpool {ROOTS[kind]} list` shows all")


def content_of(source: LibrarySource) -> bytes:
    """As it is kept."""
    stored: dict[str, JsonValue] = {"format": FORMAT, **source.to_json()}
    return json.dumps(stored, separators=(",", ":")).encode()


def source_of(kind: Kind, name: str, content: bytes) -> LibrarySource | str:
    """The source in what `content_of` made, or why it cannot be used."""
    try:
        stored: JsonValue = json.loads(content)
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            return f"its file is of another format; save it again (`moonpool {ROOTS[kind]}`)"
        source = LibrarySource.from_json(stored)
    except (InputError, ValueError, RecursionError) as error:
        reason = "not JSON" if isinstance(error, json.JSONDecodeError | UnicodeDecodeError) else str(error)
        return f"its file is damaged ({reason}); save it again or remove it"
    if (source.kind, source.name) != (kind, name):
        return "its file holds an entry of another name; save it again or remove it"
    return source


def change_of(
    kind: Kind, name: str, before: LibrarySource | None, after: LibrarySource | None, records: LibraryObserver
) -> LibraryChange:
    action: ChangeAction = "removed" if after is None else "replaced" if before is not None else "saved"
    return LibraryChange(
        change_id=f"library_{uuid.uuid4().hex}",
        principal=records.principal,
        action=action,
        kind=kind,
        name=name,
        before_digest=before.digest if before is not None else "",
        after_digest=after.digest if after is not None else "",
        from_run=after.run_id if after is not None else "",
    )


def _state_of(path: str, member: str) -> int:
    try:
        return int(getattr(os.stat(path), member))  # noqa: PTH116  a quarter of the time, before every execution
    except OSError:
        return -1
