"""Heads of trees in the service's database.

A hold, its renewal and its end are not waited for to be on the disk: a machine that fails has no holder any more. A
commit is, with all before it.
"""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from sqlalchemy import Double, and_, delete, func, insert, literal, or_, select, true, update
from sqlalchemy.exc import IntegrityError

from moonpool.core.errors import InputError
from moonpool.features.storage.base import TreeState
from moonpool.features.storage.heads import (
    CLAIM_S,
    GARBAGE_S,
    LISTED_MAX,
    PENDING_S,
    SWEPT_MAX,
    Garbage,
    Head,
    HeadMovedError,
    TreeBounds,
    blob_bytes,
    busy_tree,
    lost_tree,
    new_id,
    removed_commit,
    too_many_bytes,
    too_many_trees,
    unknown_tree,
)
from moonpool.features.storage.model import TreeName
from moonpool.store.database.blocking import SERVER_NOW, text_of
from moonpool.store.database.tables import STORED_GARBAGE as GARBAGE
from moonpool.store.database.tables import STORED_TREE as TREE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import ColumnElement, Connection, Row

    from moonpool.features.storage.heads import Commit, Hold, TreeKey
    from moonpool.store.database.base import Database

_T = TypeVar("_T")
_HEAD: Final = tuple(TREE.c[field.name] for field in dataclasses.fields(Head))
_IS_PENDING: Final = GARBAGE.c.state == "pending"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[str, ...]).decode


class TreeTable:
    """The `TreeHeads` of a database. `clock` None: the database's own."""

    def __init__(
        self, database: Database, bounds: TreeBounds | None = None, *, clock: Callable[[], float] | None = None
    ) -> None:
        self._database, self._bounds, self._clock = database, bounds or TreeBounds(), clock

    async def hold(self, key: TreeKey, hold: Hold, /) -> Head:
        def work(connection: Connection) -> Head:
            now = self._now(connection)
            values = {
                "holder": hold.token, "held_by": text_of(hold.execution_id), "held_until": now + hold.lease_s,
                "used_at": now,
            }  # fmt: skip
            take = update(TREE).where(_this(key), _is_free(now)).values(values).returning(*_HEAD)
            row = connection.execute(take).one_or_none()
            if row is None:
                if _state(connection, key) is not None:
                    raise busy_tree(key.name)
                self._make(connection, key, only="thread")
                row = connection.execute(take).one()
            self._note_commit(connection, key.organisation, row.tree_id, hold.commit_id)
            return _head(row)

        return await self._write(work, durable=False)

    async def renew(self, key: TreeKey, hold: Hold, /) -> bool:
        def work(connection: Connection) -> bool:
            now = self._now(connection)
            held = update(TREE).where(_this(key), TREE.c.holder == hold.token)
            found = connection.execute(held.values(held_until=now + hold.lease_s)).rowcount == 1
            pending = update(GARBAGE).where(_garbage(key.organisation, hold.commit_id), _IS_PENDING)
            connection.execute(pending.values(due_at=now + PENDING_S))
            return found

        return await self._write(work, durable=False)

    async def release(self, key: TreeKey, hold: Hold, /, *, unused: bool) -> None:
        def work(connection: Connection) -> None:
            held = update(TREE).where(_this(key), TREE.c.holder == hold.token)
            connection.execute(held.values(holder="", held_by="", held_until=0.0))
            if unused:
                connection.execute(delete(GARBAGE).where(_garbage(key.organisation, hold.commit_id), _IS_PENDING))

        await self._write(work, durable=False)

    async def begin(self, key: TreeKey, commit_id: str, /) -> Head:
        def work(connection: Connection) -> Head:
            head = _find(connection, key)
            if head is None:
                self._make(connection, key, only="thread")
                head = _find(connection, key)
                assert head is not None
            self._note_commit(connection, key.organisation, head.tree_id, commit_id)
            return head

        return await self._write(work, durable=False)

    async def note(self, organisation: str, commit_id: str, bytes_count: int, /) -> None:
        def work(connection: Connection) -> None:
            pending = update(GARBAGE).where(_garbage(organisation, commit_id), _IS_PENDING)
            due_at = self._now(connection) + PENDING_S
            if not connection.execute(pending.values(bytes_count=bytes_count, due_at=due_at)).rowcount:
                raise removed_commit()
            self._check_stored(connection, organisation)

        await self._write(work, durable=False)

    async def commit(self, key: TreeKey, commit: Commit, /) -> None:
        def work(connection: Connection) -> None:
            now = self._now(connection)
            self._end_commit(connection, key, commit, now)
            base = (TREE.c.tree_id == commit.base.tree_id) & (TREE.c.version == commit.base.version)
            held = TREE.c.holder == commit.token if commit.token is not None else true()
            change = update(TREE).where(_this(key), base, held)
            values = {field.name: getattr(commit.head, field.name) for field in dataclasses.fields(Head)}
            if not connection.execute(change.values(**values, used_at=now)).rowcount:
                raise _refusal(connection, key, commit)
            if commit.head.bytes_count > commit.base.bytes_count:
                total = _sum(connection, TREE.c.bytes_count, TREE.c.organisation_id == key.organisation)
                if total > self._bounds.bytes_max:
                    raise too_many_bytes(self._bounds.bytes_max)
            if not commit.only_removes:
                self._check_stored(connection, key.organisation)

        await self._write(work, durable=True)

    def _check_stored(self, connection: Connection, organisation: str) -> None:
        """SECURITY: blobs count, not only the files in them: of a blob that a file is left of, all is stored."""
        stored = _sum(connection, TREE.c.stored_bytes, TREE.c.organisation_id == organisation)
        garbage = _sum(connection, GARBAGE.c.bytes_count, GARBAGE.c.organisation_id == organisation)
        if stored + garbage > 2 * self._bounds.bytes_max:
            raise too_many_bytes(self._bounds.bytes_max)

    def _end_commit(self, connection: Connection, key: TreeKey, commit: Commit, now: ColumnElement[float]) -> None:
        """Its row becomes that of what it made unreachable. Raises TreeLostError when its blobs are being removed."""
        pending = _garbage(key.organisation, commit.commit_id), _IS_PENDING
        if commit.garbage:
            change = update(GARBAGE).where(*pending).values(
                state="garbage", prefix="", names=_encode(sorted(commit.garbage)),
                bytes_count=sum(map(blob_bytes, commit.garbage)), due_at=now + GARBAGE_S,
            )  # fmt: skip
        else:
            change = delete(GARBAGE).where(*pending)
        if not connection.execute(change).rowcount:
            raise lost_tree(key.name)

    async def find(self, key: TreeKey, /) -> tuple[Head, TreeState]:
        rows = await self._database.read(select(TREE).where(_this(key)))
        if not rows:
            raise unknown_tree(key.name)
        return _head(rows[0]), self._seen(rows[0])

    async def all(self, organisation: str, kind: str, owner: str | None, /) -> Sequence[TreeState]:
        query = select(TREE).where(TREE.c.organisation_id == organisation, TREE.c.kind == kind)
        if owner is not None:
            query = query.where(TREE.c.owner == owner)
        rows = await self._database.read(query.order_by(TREE.c.name, TREE.c.owner).limit(LISTED_MAX))
        return [self._seen(row) for row in rows]

    def _seen(self, row: Row[Any]) -> TreeState:
        """For people: whose lease has ended holds it no more. Only `_is_free` decides, by the database's clock."""
        state = _tree_state(row)
        return state if row.held_until > (self._clock or time.time)() else dataclasses.replace(state, held_by="")

    async def create(self, key: TreeKey, /) -> TreeState:
        def work(connection: Connection) -> TreeState:
            if _state(connection, key) is None:
                self._make(connection, key, only=key.name.kind)
                made = _state(connection, key)
                assert made is not None
                return made
            raise InputError(f"there is a {key.name.kind} {key.name.name} already; choose another name")

        return await self._write(work, durable=True)

    async def delete(self, key: TreeKey, /) -> None:
        def work(connection: Connection) -> None:
            now = self._now(connection)
            gone = delete(TREE).where(_this(key), _is_free(now)).returning(TREE.c.tree_id, TREE.c.stored_bytes)
            row = connection.execute(gone).one_or_none()
            if row is None:
                raise unknown_tree(key.name) if _state(connection, key) is None else busy_tree(key.name)
            values = {
                "organisation_id": key.organisation, "garbage_id": new_id(), "state": "garbage",
                "prefix": f"{row.tree_id}/", "names": b"[]", "bytes_count": row.stored_bytes,
                "due_at": now + GARBAGE_S,
            }  # fmt: skip
            connection.execute(insert(GARBAGE).values(values))

        await self._write(work, durable=True)

    async def claim_garbage(self) -> Sequence[Garbage]:
        def work(connection: Connection) -> Sequence[Garbage]:
            now = self._now(connection)
            due = select(GARBAGE.c.organisation_id, GARBAGE.c.garbage_id).where(GARBAGE.c.due_at <= now)
            due = due.order_by(GARBAGE.c.due_at).limit(SWEPT_MAX).with_for_update(skip_locked=True)
            claimed: list[Garbage] = []
            for one in connection.execute(due).all():
                change = update(GARBAGE).where(_garbage(one.organisation_id, one.garbage_id))
                change = change.values(state="swept", due_at=now + CLAIM_S).returning(GARBAGE.c.prefix, GARBAGE.c.names)
                row = connection.execute(change).one()
                names = _decode(bytes(row.names))
                claimed.append(Garbage(one.organisation_id, one.garbage_id, prefix=row.prefix, names=names))
            return claimed

        return await self._write(work, durable=True)

    async def forget_garbage(self, garbage: Garbage, /) -> None:
        gone = delete(GARBAGE).where(_garbage(garbage.organisation, garbage.garbage_id), GARBAGE.c.state == "swept")
        await self._write(lambda connection: connection.execute(gone), durable=False)

    async def clear_holds(self) -> None:
        free = update(TREE).where(TREE.c.holder != "").values(holder="", held_by="", held_until=0.0)
        await self._write(lambda connection: connection.execute(free), durable=False)

    async def _write(self, work: Callable[[Connection], _T], *, durable: bool) -> _T:
        try:
            return await self._database.write(work, durable=durable)
        except IntegrityError:  # another replica has just made the same tree
            return await self._database.write(work, durable=durable)

    def _now(self, connection: Connection) -> ColumnElement[float]:
        """SQLite's clock is this machine's."""
        if self._clock is None and connection.dialect.name == "postgresql":
            return SERVER_NOW
        return literal((self._clock or time.time)(), Double)

    def _make(self, connection: Connection, key: TreeKey, *, only: str) -> None:
        """Raises UnknownTreeError for another kind than `only`, TreeFullError."""
        if key.name.kind != only:
            raise unknown_tree(key.name)
        if connection.dialect.name == "postgresql":  # so that what is counted is still so
            lock = func.pg_advisory_xact_lock(func.hashtextextended(f"stored trees of {key.organisation}", 0))
            connection.execute(select(lock))
        count_max = self._bounds.threads_max if only == "thread" else self._bounds.volumes_max
        own = (TREE.c.organisation_id == key.organisation) & (TREE.c.kind == only)
        if connection.execute(select(func.count()).select_from(TREE).where(own)).scalar_one() >= count_max:
            raise too_many_trees(only, count_max)
        now = self._now(connection)
        values = {
            "organisation_id": key.organisation, "kind": only, "owner": key.name.owner, "name": key.name.name,
            **dataclasses.asdict(Head(tree_id=new_id())), "created_at": now, "used_at": now, "held_until": 0.0,
            "holder": "", "held_by": "",
        }  # fmt: skip
        connection.execute(insert(TREE).values(values))

    def _note_commit(self, connection: Connection, organisation: str, tree_id: str, commit_id: str) -> None:
        values = {
            "organisation_id": organisation, "garbage_id": commit_id, "state": "pending",
            "prefix": f"{tree_id}/{commit_id}/", "names": b"[]", "bytes_count": 0,
            "due_at": self._now(connection) + PENDING_S,
        }  # fmt: skip
        connection.execute(insert(GARBAGE).values(values))


def _this(key: TreeKey) -> ColumnElement[bool]:
    name = key.name
    return and_(
        TREE.c.organisation_id == key.organisation, TREE.c.kind == name.kind, TREE.c.owner == name.owner,
        TREE.c.name == name.name,
    )  # fmt: skip


def _is_free(now: ColumnElement[float]) -> ColumnElement[bool]:
    return or_(TREE.c.holder == "", TREE.c.held_until <= now)


def _garbage(organisation: str, garbage_id: str) -> ColumnElement[bool]:
    return and_(GARBAGE.c.organisation_id == organisation, GARBAGE.c.garbage_id == garbage_id)


def _sum(connection: Connection, column: ColumnElement[int], of: ColumnElement[bool]) -> int:
    return int(connection.execute(select(func.coalesce(func.sum(column), 0)).where(of)).scalar_one())


def _find(connection: Connection, key: TreeKey) -> Head | None:
    row = connection.execute(select(*_HEAD).where(_this(key))).one_or_none()
    return None if row is None else _head(row)


def _state(connection: Connection, key: TreeKey) -> TreeState | None:
    row = connection.execute(select(TREE).where(_this(key))).one_or_none()
    return None if row is None else _tree_state(row)


def _refusal(connection: Connection, key: TreeKey, commit: Commit) -> Exception:
    """Why the head could not be changed."""
    row = connection.execute(select(TREE.c.tree_id, TREE.c.holder).where(_this(key))).one_or_none()
    if row is None or row.tree_id != commit.base.tree_id:
        return unknown_tree(key.name)
    if commit.token is not None and row.holder != commit.token:
        return lost_tree(key.name)
    return HeadMovedError()


def _head(row: Row[Any]) -> Head:
    return Head(**{field.name: getattr(row, field.name) for field in dataclasses.fields(Head)})


def _tree_state(row: Row[Any]) -> TreeState:
    return TreeState(
        name=TreeName(kind=row.kind, name=row.name, owner=row.owner), bytes_count=row.bytes_count,
        entry_count=row.entry_count, version=row.version, created_at=row.created_at, used_at=row.used_at,
        held_by=row.held_by,
    )  # fmt: skip
