"""Documents by name in the service's PostgreSQL database: what is a private file each without one.

One table for all kinds, because nothing but the name is ever asked for. A version counts the changes of a document, so
that who has read it can tell by a number whether it is another one now.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import delete, insert, select, update

from moonpool.store.database.blocking import SERVER_NOW, text_of
from moonpool.store.database.tables import KEPT

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import ColumnElement, Connection

    from moonpool.store.database.blocking import TenantRows

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Document:
    """One, as it is now."""

    name: str
    body: bytes
    age_s: float  # since it was last put, by the server's clock


@dataclass(frozen=True, slots=True)
class KeptRows:
    """The documents of one kind of one organisation. Blocking. SECURITY: every query names both."""

    rows: TenantRows

    def get(self, name: str) -> bytes | None:
        found = self.rows.read(select(KEPT.c.body).where(self.own, KEPT.c.place == _place(name)))
        return bytes(found[0]["body"]) if found else None

    def version(self, name: str) -> int:
        """0: there is none."""
        found = self.rows.read(select(KEPT.c.version).where(self.own, KEPT.c.place == _place(name)))
        return found[0]["version"] if found else 0

    def names(self) -> tuple[str, ...]:
        """All, sorted."""
        return tuple(sorted(row["name"] for row in self.rows.read(select(KEPT.c.name).where(self.own))))

    def all(self) -> dict[str, bytes]:
        """Bodies by name, sorted by it."""
        found = self.rows.read(select(KEPT.c.name, KEPT.c.body).where(self.own))
        return dict(sorted((row["name"], bytes(row["body"])) for row in found))

    def change(self, work: Callable[[Change], _T]) -> _T:
        """`work` in a transaction, one at a time for this kind. It may be called again, as in `Database.write`."""
        return self.rows.write(lambda connection: work(Change(connection, self)))

    @property
    def own(self) -> ColumnElement[bool]:
        return (KEPT.c.organisation_id == self.rows.organisation_id) & (KEPT.c.kind == self.rows.kind)


@dataclass(frozen=True, slots=True)
class Change:
    """A transaction about the documents of one kind."""

    connection: Connection
    kept: KeptRows

    def get(self, name: str) -> Document | None:
        columns = (KEPT.c.name, KEPT.c.body, (SERVER_NOW - KEPT.c.put_at).label("age_s"))
        found = self.connection.execute(select(*columns).where(self._this(name))).one_or_none()
        return None if found is None else Document(found.name, bytes(found.body), found.age_s)

    def all(self) -> dict[str, bytes]:
        """See `KeptRows.all`."""
        found = self.connection.execute(select(KEPT.c.name, KEPT.c.body).where(self.kept.own))
        return dict(sorted((row.name, bytes(row.body)) for row in found))

    def put(self, name: str, body: bytes) -> None:
        """Make or replace it."""
        values: dict[str, Any] = {"body": body, "put_at": SERVER_NOW}
        newer = update(KEPT).where(self._this(name)).values(**values, version=KEPT.c.version + 1)
        if self.connection.execute(newer).rowcount:
            return
        of = self.kept.rows
        key = {"organisation_id": of.organisation_id, "kind": of.kind, "place": _place(name), "name": text_of(name)}
        self.connection.execute(insert(KEPT).values(**key, **values, version=1))

    def remove(self, name: str) -> bool:
        """False: there was none."""
        return self.connection.execute(delete(KEPT).where(self._this(name))).rowcount == 1

    def _this(self, name: str) -> ColumnElement[bool]:
        return self.kept.own & (KEPT.c.place == _place(name))


def _place(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
