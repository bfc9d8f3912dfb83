"""The library at work: what of it is shown, and the use cases by which a person changes it.

`LibraryView` follows the store: an entry that is saved in one process is there for the next execution of every other.
An entry that cannot be read loses only itself; the operator is told once.

SECURITY: nothing that a sandbox or a model's client can reach writes here. What a model wrote comes back in later
executions only when a person keeps it by a command, and every change is on record with its digest, before it is made
and after (`moonpool.features.library.transactions`).
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from moonpool.core.audit_records import LibraryIntentRecord, LibraryRecord, time_stamp
from moonpool.core.errors import InputError
from moonpool.features.library.model.actions import read_action
from moonpool.features.library.model.entries import Library
from moonpool.features.library.model.skills import read_skill
from moonpool.sandboxes.shielding import in_thread
from moonpool.store.journal_records import JournalRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from moonpool.core.audit import Journal
    from moonpool.core.audit_records import AuditRecord
    from moonpool.features.library.model.bounds import Kind
    from moonpool.features.library.model.change import LibraryChange, LibraryObserver
    from moonpool.features.library.model.entries import LibraryEntry, LibrarySource

_log = logging.getLogger(__name__)

READERS: Final[Mapping[Kind, Callable[[LibrarySource], LibraryEntry]]] = {
    "action": read_action,
    "skill": read_skill,
}
"""What makes an entry of a source. Raises InputError."""


class KeptFiles(Protocol):
    """See `moonpool.features.library.table.LibraryFiles`."""

    @property
    def sources(self) -> Sequence[LibrarySource]: ...
    @property
    def problems(self) -> Sequence[object]: ...


class LibraryStorage(Protocol):
    """Keeps sources (`moonpool.features.library.table.LibraryStore`, or rows). Blocking, but for `has_moved`."""

    def load(self) -> KeptFiles: ...
    def find(self, kind: Kind, name: str, /) -> LibrarySource | None: ...
    def save(self, source: LibrarySource, /, *, replace: bool, records: LibraryObserver) -> LibrarySource | None: ...
    def remove(self, kind: Kind, name: str, /, *, records: LibraryObserver) -> LibrarySource | None: ...
    def settle(self, records: LibraryObserver, /) -> LibraryChange | None: ...
    def stamp(self) -> object: ...
    async def has_moved(self, stamp: object, /) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class ShownLibrary:
    """What is shown, and a sentence for every entry that is not."""

    library: Library = field(default_factory=Library)
    problems: tuple[str, ...] = ()


class LibraryView:
    """The library as one process shows it."""

    def __init__(
        self,
        storage: LibraryStorage,
        *,
        holds_secret: Callable[[bytes], bool] = lambda _: False,
        tell: Callable[[str], None] = lambda text: _log.warning("%s", text),
    ) -> None:
        """`holds_secret` says of a file's content that it must not reach a sandbox; `tell` hears of problems, once."""
        self._storage, self._holds_secret, self._tell = storage, holds_secret, tell
        self._stamp: object = None
        self._entries: dict[str, LibraryEntry | str] = {}  # digest of a source -> what was made of it
        self._reported: frozenset[str] = frozenset()

    async def has_moved(self) -> bool:
        """Whether the store changed since `read`; asked before every execution."""
        return await self._storage.has_moved(self._stamp)

    def forget(self) -> None:
        """What was read could not be shown: look again next time."""
        self._stamp = None

    def read(self) -> ShownLibrary:
        """All entries that can be read. Blocking. What cannot is told, once."""
        self._stamp = self._storage.stamp()  # before the files: a change meanwhile shows in the next look
        kept = self._storage.load()
        problems = [str(problem) for problem in kept.problems]
        known, self._entries = self._entries, {}
        entries: list[LibraryEntry] = []
        for source in kept.sources:
            made = known.get(source.digest) or self._entry_of(source)
            self._entries[source.digest] = made
            if isinstance(made, str):
                problems.append(made)
            else:
                entries.append(made)
        library = _library_of(entries, problems)
        for problem in problems:
            if problem not in self._reported:
                self._tell(problem)
        self._reported = frozenset(problems)
        return ShownLibrary(library=library, problems=tuple(problems))

    def _entry_of(self, source: LibrarySource) -> LibraryEntry | str:
        if any(map(self._holds_secret, source.files.values())) or self._holds_secret(source.description.encode()):
            return f"{source.kind} {source.name!r} is left out: it holds a secret of the configuration; save it without"
        try:
            return entry_of(source)
        except InputError as error:
            return f"{source.kind} {source.name!r} is left out: {error}"


class LibraryChanges:
    """Saving and removing, with a record of each."""

    def __init__(
        self,
        storage: LibraryStorage,
        journal: Journal,
        principal: str,
        *,
        has_ended: Callable[[str], bool],
        holds_secret: Callable[[bytes], bool] = lambda _: False,
    ) -> None:
        """`has_ended` says whether what came of the change of this id is on record. It may block."""
        self._storage, self._journal, self._principal = storage, journal, principal
        self._has_ended, self._holds_secret = has_ended, holds_secret

    async def save(self, source: LibrarySource, *, replace: bool = False) -> LibraryEntry:
        """Keep `source`, and put it on record. Raises InputError, StoreFolderError and JournalError.

        No cancellation stops it half way.
        """
        entry = await in_thread(partial(_entry_of_source, source))
        for path, content in (*source.files.items(), ("description", source.description.encode())):
            if self._holds_secret(content):
                where = f" ({path})" if len(source.files) > 1 else ""
                raise InputError(
                    f"{source.kind} {source.name!r}{where} holds a secret or what looks like one; take it out, and let "
                    "a tool's server use it"
                )
        save = partial(self._storage.save, source, replace=replace, records=self._records())
        await in_thread(save)
        return entry

    async def remove(self, kind: Kind, name: str) -> None:
        """Forget an entry, and put that on record. Raises InputError, StoreFolderError and JournalError."""
        await in_thread(partial(self._storage.remove, kind, name, records=self._records()))

    async def settle(self) -> LibraryChange | None:
        """Put on record what came of a change whose process died, if there is one and nobody is at it.

        Raises StoreFolderError and JournalError.
        """
        return await in_thread(partial(self._storage.settle, self._records()))

    def _records(self) -> LibraryRecords:
        write = JournalRecords(asyncio.get_running_loop(), self._journal.record)
        return LibraryRecords(self._principal, write, self._has_ended)


@dataclass(frozen=True, slots=True)
class LibraryRecords:
    """Puts changes of the library on record. See `moonpool.features.library.model.change.LibraryObserver`."""

    principal: str
    _write: Callable[[AuditRecord], None]
    _has_ended: Callable[[str], bool]

    def begins(self, change: LibraryChange, /) -> None:
        self._write(LibraryIntentRecord(**_members(change)))

    def has_ended(self, change: LibraryChange, /) -> bool:
        return self._has_ended(change.change_id)

    def ended(self, change: LibraryChange, /, *, error_type: str = "", settled: bool = False) -> None:
        self._write(LibraryRecord(**_members(change), error_type=error_type, settled=settled))


def _members(change: LibraryChange) -> dict[str, str]:
    """What both records of a change say."""
    return {
        "run_id": change.change_id,
        "at": time_stamp(datetime.now(UTC)),
        "principal": change.principal,
        "action": change.action,
        "entry": change.entry,
        "before_digest": change.before_digest,
        "after_digest": change.after_digest,
        "from_run": change.from_run,
    }


def _entry_of_source(source: LibrarySource) -> LibraryEntry:
    """SECURITY: code that nobody has read before is parsed in a process with limits."""
    from moonpool.code_reading.reader import read_interface  # noqa: PLC0415  most processes save nothing

    return entry_of(source, readers={**READERS, "action": partial(read_action, read=read_interface)})


def entry_of(
    source: LibrarySource, *, readers: Mapping[Kind, Callable[[LibrarySource], LibraryEntry]] | None = None
) -> LibraryEntry:
    """What is shown of `source`. Raises InputError."""
    reader = (readers or READERS).get(source.kind)
    if reader is None:
        raise InputError(f"this version of Moonpool cannot show a {source.kind}")
    try:
        entry = reader(source)
        entry.shown_digest  # noqa: B018  SECURITY: what has no JSON would take every other entry with it
    except (ValueError, RecursionError) as error:
        raise InputError(f"its text cannot be shown ({error}); write it in another way") from error
    return entry


def _library_of(entries: Sequence[LibraryEntry], problems: list[str]) -> Library:
    """A library of all that can stand together."""
    try:
        return Library(entries=tuple(entries))
    except InputError:
        kept: list[LibraryEntry] = []
        for entry in entries:
            try:
                Library(entries=(*kept, entry))
            except InputError as error:
                problems.append(f"{entry.path} is left out: {error}")
            else:
                kept.append(entry)
        return Library(entries=tuple(kept))
