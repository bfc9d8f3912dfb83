"""Saved actions and skills in the service's PostgreSQL database, by the rules of `moonpool.features.library.table`.

A change goes through the steps of `moonpool.features.library.transactions`, each a transaction, and its note is a
document beside the entries. No lock outlives a transaction, so the note is what keeps others out: INVARIANT: an entry
is changed, and changed back, only while the note is still that of the change. Whoever finds a note that is older than
`CHANGED_WITHIN_S` takes it over, puts on record what came of the change, and removes it.

Every step puts the note again, so its version is the library's stamp. Blocking, but for `has_moved`.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import InputError, MoonpoolError
from moonpool.features.library.model.bounds import KINDS, ROOTS, check_name
from moonpool.features.library.model.change import INTERRUPTED, LibraryChange
from moonpool.features.library.model.entries import LibrarySource
from moonpool.features.library.table import (
    NOBODY,
    LibraryFiles,
    change_of,
    content_of,
    gathered,
    missing,
    replaced,
    source_of,
)
from moonpool.store.database.base import DatabaseError
from moonpool.store.database.kept import KeptRows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from moonpool.features.library.model.bounds import Kind
    from moonpool.features.library.model.change import LibraryObserver
    from moonpool.store.database.blocking import TenantRows
    from moonpool.store.database.kept import Change

CHANGED_WITHIN_S: float = 60.0
"""Several times as long as a journal tries to write."""
LOOKED_S: float = 0.4
"""How old the stamp may be that executions start with."""
_WAITED_S: Final = 5.0
_PAUSE_S: Final = 0.05
_NOTE: Final = ".change"
_DONE: Final = b"{}"


class LibraryRows:
    """The library of one organisation. Methods raise what `rows` raises."""

    def __init__(self, rows: TenantRows) -> None:
        self._kept = KeptRows(rows)
        self._looked = (-LOOKED_S, 0)  # when, and the stamp that was found

    def load(self) -> LibraryFiles:
        """See `LibraryStore`."""
        return gathered(_sources(self._kept.all()))

    def find(self, kind: Kind, name: str) -> LibrarySource | None:
        """See `LibraryStore`."""
        content = self._kept.get(_place(kind, check_name(kind, name)))
        found = None if content is None else source_of(kind, name, content)
        if isinstance(found, str):
            raise InputError(f"{kind} {name!r} cannot be read: {found}")
        return found

    def save(
        self, source: LibrarySource, *, replace: bool = False, records: LibraryObserver = NOBODY
    ) -> LibrarySource | None:
        """See `LibraryStore`."""
        kind, name = source.kind, check_name(source.kind, source.name)

        def before(entries: Mapping[tuple[Kind, str], LibrarySource | str]) -> LibrarySource | None:
            count = sum(1 for one, _ in entries if one == kind)
            exists = (kind, name) in entries
            return replaced(source, gathered(entries), count=count, exists=exists, replace=replace)

        return self._carry_out(kind, name, before, source, records)

    def remove(self, kind: Kind, name: str, *, records: LibraryObserver = NOBODY) -> LibrarySource | None:
        """See `LibraryStore`."""
        check_name(kind, name)

        def before(entries: Mapping[tuple[Kind, str], LibrarySource | str]) -> LibrarySource | None:
            if (kind, name) not in entries:
                raise missing(kind, name)
            found = entries[kind, name]
            return found if isinstance(found, LibrarySource) else None

        return self._carry_out(kind, name, before, None, records)

    def settle(self, records: LibraryObserver) -> LibraryChange | None:
        """See `LibraryStore`."""
        token = uuid.uuid4().hex

        def take_over(rows: Change) -> tuple[LibraryChange, str] | None:
            note = rows.get(_NOTE)
            if note is None or note.body == _DONE or note.age_s < CHANGED_WITHIN_S:
                return None
            change = _change_in(note.body)
            rows.put(_NOTE, _note(change, token))
            entry = rows.get(_place(change.kind, change.name))
            found = None if entry is None else source_of(change.kind, change.name, entry.body)
            return change, found.digest if isinstance(found, LibrarySource) else "" if entry is None else "damaged"

        if self._kept.get(_NOTE) in {None, _DONE} or (taken := self._kept.change(take_over)) is None:
            return None
        change, digest = taken
        if not records.has_ended(change):
            made = digest == change.after_digest
            records.ended(change, error_type="" if made else INTERRUPTED, settled=True)
        self._step(_note(change, token), done=True)
        return change

    def stamp(self) -> int:
        """See `LibraryStore`."""
        version = self._kept.version(_NOTE)
        self._looked = (time.monotonic(), version)
        return version

    async def has_moved(self, stamp: object) -> bool:
        """See `LibraryStore`. As of `LOOKED_S` ago."""
        at, version = self._looked
        if time.monotonic() - at >= LOOKED_S:
            version = await asyncio.to_thread(self.stamp)
        return version != stamp

    def _carry_out(
        self,
        kind: Kind,
        name: str,
        find_before: Callable[[Mapping[tuple[Kind, str], LibrarySource | str]], LibrarySource | None],
        after: LibrarySource | None,
        records: LibraryObserver,
    ) -> LibrarySource | None:
        self.settle(records)
        place, token = _place(kind, name), uuid.uuid4().hex
        content = None if after is None else content_of(after)

        def begin(rows: Change) -> tuple[LibrarySource | None, bytes | None, LibraryChange] | None:
            if (note := rows.get(_NOTE)) is not None and note.body != _DONE:
                return None
            entries = rows.all()
            before = find_before(_sources(entries))
            change = change_of(kind, name, before, after, records)
            rows.put(_NOTE, _note(change, token))
            return before, entries.get(place), change

        until = time.monotonic() + _WAITED_S
        while (begun := self._kept.change(begin)) is None:
            if time.monotonic() >= until:
                raise InputError("the library is being changed by somebody else; try again in a minute")
            time.sleep(_PAUSE_S)
        before, former, change = begun
        note = _note(change, token)
        try:
            records.begins(change)
        except BaseException:
            with suppress(MoonpoolError):  # then it is settled as one that was not made
                self._step(note, done=True)
            raise
        try:
            if not self._step(note, place, content):
                raise DatabaseError("this change of the library took too long, and was taken for one that was given up")
            records.ended(change)
        except BaseException as error:
            why = error.code if isinstance(error, MoonpoolError) else DatabaseError.code
            with suppress(MoonpoolError):  # then it is settled
                if self._step(note, place, former):
                    records.ended(change, error_type=why)
                    self._step(note, done=True)
            raise
        self._step(note, done=True)
        return before

    def _step(self, note: bytes, place: str = "", content: bytes | None = None, *, done: bool = False) -> bool:
        """Make `content` the entry at `place`, if any; None removes it. False: the note is another's by now."""

        def work(rows: Change) -> bool:
            found = rows.get(_NOTE)
            if found is None or found.body != note:
                return False
            if place and content is None:
                rows.remove(place)
            elif place and content is not None:
                rows.put(place, content)
            rows.put(_NOTE, _DONE if done else note)
            return True

        return self._kept.change(work)


def _note(change: LibraryChange, token: str) -> bytes:
    return json.dumps({"token": token, "change": change.to_json()}).encode()


def _change_in(note: bytes) -> LibraryChange:
    try:
        return LibraryChange.from_json(json.loads(note)["change"])
    except (InputError, ValueError, KeyError, TypeError):
        raise DatabaseError("the note of the library's last change is damaged; restore a backup") from None


def _place(kind: Kind, name: str) -> str:
    return f"{ROOTS[kind]}/{name}"


def _sources(bodies: Mapping[str, bytes]) -> dict[tuple[Kind, str], LibrarySource | str]:
    """What these documents hold, in the order of kinds and names."""
    return {
        (kind, name): source_of(kind, name, body)
        for kind in KINDS
        for place, body in bodies.items()
        if (name := place.removeprefix(f"{ROOTS[kind]}/")) != place
    }
