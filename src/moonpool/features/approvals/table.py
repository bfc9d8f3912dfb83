"""The queue of approvals as an SQLite file that all processes of a data folder share. Blocking; never on the loop.

INVARIANT: a request leaves `waiting` in one transaction that looks at its expiry and at the process that asked; its
answer is taken once. So of two people who answer at the same time one is told that he was late. An answer that was
not taken when its request ends is none: who gave it waits for that (`was_taken`) and is told.
INVARIANT: an approval grant, and the yes that it was given with, count once the grant is on record (`store.outbox`).
SECURITY: the file lies in the private folder, which no sandbox is shown. Answers name request and arguments digest.

The file itself is `sqlite_file`. `clock` is the time of day, which processes share.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moonpool.features.approvals import rows
from moonpool.features.approvals.model import NOTE_CHARS_MAX, QueueState
from moonpool.features.approvals.rows import GRANT_COLUMNS, OPEN, REQUEST_COLUMNS, grant_of, request_of
from moonpool.features.approvals.sqlite_file import ApprovalsFile
from moonpool.store.outbox import PENDING, Delivery, Outbox

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from moonpool.features.approvals.model import ApprovalAnswer, ApprovalGrant, ApprovalRequest, QueuedRequest

_SELECT_REQUESTS: Final = f"SELECT {', '.join(REQUEST_COLUMNS)} FROM request"  # noqa: S608  names of ours
_SELECT_GRANTS: Final = f"SELECT {', '.join(GRANT_COLUMNS)} FROM standing"  # noqa: S608
_IN_FORCE: Final = f"answer_id NOT IN {PENDING}"
_PENDING_REQUESTS: Final = f"(SELECT request_id FROM standing WHERE answer_id IN {PENDING})"  # noqa: S608


class ApprovalStore:
    """The queue at `path`. `is_gone` tells whether a process, named by its mark, has ended; None: unknown."""

    def __init__(
        self, path: Path, *, is_gone: Callable[[str], bool | None], clock: Callable[[], float] = time.time
    ) -> None:
        self.path, self._file = path, ApprovalsFile(path)
        self._outbox = Outbox(self._file.writing)
        self._is_gone, self._clock = is_gone, clock

    def is_unused(self) -> bool:
        return not self._file.exists()

    def deliver_left(self, write: Callable[..., None]) -> None:
        """Put on record what processes that ended did not."""
        if not self.is_unused():
            self._outbox.deliver_left(write)

    def put(self, queued: QueuedRequest) -> None:
        with self._file.writing() as connection:
            now = self._clock()
            self._sweep(connection, now)
            connection.execute(
                "DELETE FROM request WHERE state IS NOT ? AND asked_at < ?", (QueueState.WAITING, now - rows.KEPT_S)
            )
            over = "SELECT request_id FROM request WHERE state IS NOT ? ORDER BY asked_at DESC LIMIT -1 OFFSET ?"
            connection.execute(
                f"DELETE FROM request WHERE request_id IN ({over}) AND request_id NOT IN {_PENDING_REQUESTS}",  # noqa: S608
                (QueueState.WAITING, rows.OVER_MAX),
            )
            self._check_room(connection, queued.request)
            connection.execute(
                f"INSERT INTO request ({', '.join(REQUEST_COLUMNS)}) VALUES ({_marks(REQUEST_COLUMNS)})",  # noqa: S608
                tuple(rows.row_of_request(queued).values()),
            )

    def _check_room(self, connection: sqlite3.Connection, request: ApprovalRequest) -> None:
        """Raises ApprovalQueueError when too many requests wait, of this principal or of all."""
        count, size, own_count, own_size = connection.execute(
            "SELECT count(*), total(length(whole)), total(principal = ?), total((principal = ?) * length(whole)) "
            "FROM request WHERE state = ?",
            (request.principal, request.principal, QueueState.WAITING),
        ).fetchone()
        rows.room_for_request(count, int(own_count), int(size), int(own_size))

    def take(self, request_id: str, arguments_digest: str) -> ApprovalAnswer | None:
        with self._file.reading() as connection:
            row = connection.execute(
                f"SELECT state, expires_at, request_id IN {_PENDING_REQUESTS} FROM request WHERE request_id = ?",  # noqa: S608
                (request_id,),
            ).fetchone()
        if row is not None and (row[0] == QueueState.WAITING or row[2]) and self._clock() < row[1]:
            return None
        with self._file.writing() as connection:
            self._sweep(connection, self._clock())
            found = connection.execute(
                "UPDATE request SET taken_at = ? WHERE request_id = ? AND arguments_digest = ? AND taken_at IS NULL "  # noqa: S608
                f"AND state IS NOT ? AND request_id NOT IN {_PENDING_REQUESTS} "
                "RETURNING state, approver, note",
                (self._clock(), request_id, arguments_digest, QueueState.WAITING),
            ).fetchone()
        return rows.as_answer(request_id, arguments_digest, found)

    def withdraw(self, request_id: str) -> None:
        """Nobody waits any more; an answer that was given at the same moment came too late."""
        with self._file.writing() as connection:
            now = self._clock()
            self._sweep(connection, now)
            connection.execute(
                "UPDATE request SET state = CASE WHEN expires_at <= ? THEN ? ELSE ? END "  # noqa: S608
                f"WHERE request_id = ? AND taken_at IS NULL AND state IN ({_marks(OPEN)})",
                (now + rows.EXPIRY_SLACK_S, QueueState.EXPIRED, QueueState.WITHDRAWN, request_id, *OPEN),
            )

    def answer(
        self,
        request_id: str,
        arguments_digest: str,
        *,
        approved: bool,
        approver: str,
        note: str = "",
        grant: ApprovalGrant | None = None,
        delivery: Delivery | None = None,
    ) -> QueuedRequest:
        """Answer a request that waits, and keep `grant` with a yes. Raises ApprovalAnswerError.

        `delivery` is of the approval grant's record. Raises JournalError when it fails: then nothing was answered.
        """
        assert (grant is None) == (delivery is None), "only what is kept is recorded, and all of it"
        state = QueueState.APPROVED if approved else QueueState.DENIED
        with self._file.writing() as connection:
            now = self._clock()
            self._sweep(connection, now)
            changed = connection.execute(
                "UPDATE request SET state = ?, approver = ?, note = ?, answered_at = ? "
                "WHERE request_id = ? AND arguments_digest = ? AND state = ?",
                (state, approver, note[:NOTE_CHARS_MAX], now, request_id, arguments_digest, QueueState.WAITING),
            ).rowcount
            after = self._find(connection, request_id)
            given = grant if changed and approved else None
            if given is not None and delivery is not None:
                self._keep(connection, given, now)
                self._outbox.put(connection, delivery.record)
        if given is not None and delivery is not None:
            self._outbox.deliver(delivery, partial(_unanswer, given))
        if after is None or not changed:
            raise rows.not_answered(request_id, after)
        return after

    def was_taken(self, answered: QueuedRequest) -> bool:
        """Whether who asked has this answer; False: not yet. Raises ApprovalAnswerError when it came too late."""
        with self._file.writing() as connection:
            self._sweep(connection, self._clock())
            row = connection.execute(
                "SELECT state, taken_at FROM request WHERE request_id = ?", (answered.request_id,)
            ).fetchone()
        rows.check_heard(answered, row and row[0])
        return row[1] is not None

    def keep_grant(self, grant: ApprovalGrant, delivery: Delivery) -> None:
        """Keep an answer that was given to a request elsewhere. Raises JournalError: then it does not stand."""
        with self._file.writing() as connection:
            self._keep(connection, grant, self._clock())
            self._outbox.put(connection, delivery.record)
        self._outbox.deliver(delivery, partial(_forget, grant))

    def requests(self, *, waiting_only: bool) -> list[QueuedRequest]:
        """Requests, oldest first."""
        with self._file.writing() as connection:
            self._sweep(connection, self._clock())
            where, values = (" WHERE state = ?", (QueueState.WAITING,)) if waiting_only else ("", ())
            found = connection.execute(f"{_SELECT_REQUESTS}{where} ORDER BY asked_at, request_id", values).fetchall()
        return [_request(row) for row in found]

    def grants(self) -> list[ApprovalGrant]:
        """Every approval grant in force, oldest first."""
        with self._file.reading() as connection:
            found = connection.execute(
                f"{_SELECT_GRANTS} WHERE expires_at > ? AND {_IN_FORCE} ORDER BY given_at", (self._clock(),)
            )
            return [self._grant(row) for row in found.fetchall()]

    def grants_for(self, principal: str, server_id: str, tool_name: str) -> list[ApprovalGrant]:
        if self.is_unused():
            return []  # nothing is made for looking
        with self._file.reading() as connection:
            found = connection.execute(
                f"{_SELECT_GRANTS} WHERE principal = ? AND server_id = ? AND tool_name = ? AND expires_at > ? "
                f"AND {_IN_FORCE} ORDER BY given_at",
                (principal, server_id, tool_name, self._clock()),
            )
            return [self._grant(row) for row in found.fetchall()]

    def remove_grant(self, answer_id: str, delivery: Delivery) -> bool:
        """End an approval grant; False when there is none of this id. Raises JournalError: then it still stands."""
        with self._file.writing() as connection:
            row = connection.execute(
                f"DELETE FROM standing WHERE answer_id = ? AND {_IN_FORCE} RETURNING {', '.join(GRANT_COLUMNS)}",  # noqa: S608
                (answer_id,),
            ).fetchone()
            if row is not None:
                self._outbox.put(connection, delivery.record)
        if row is not None:
            self._outbox.deliver(delivery, partial(_insert, row))
        return row is not None

    def close(self) -> None:
        self._file.close()

    def _sweep(self, connection: sqlite3.Connection, now: float) -> None:
        """Requests that are too old have expired; those whose process is gone are abandoned, answered or not.

        Of what is over only a screen of the arguments is kept.
        """
        waiting = QueueState.WAITING
        connection.execute(
            "UPDATE request SET whole = '' "  # noqa: S608
            f"WHERE state IS NOT ? AND whole IS NOT '' AND request_id NOT IN {_PENDING_REQUESTS}",
            (waiting,),
        )
        connection.execute(
            "UPDATE request SET state = ? WHERE state = ? AND expires_at <= ?", (QueueState.EXPIRED, waiting, now)
        )
        owners = connection.execute(
            f"SELECT DISTINCT owner FROM request WHERE taken_at IS NULL AND state IN ({_marks(OPEN)})",  # noqa: S608
            OPEN,
        ).fetchall()
        for (owner,) in owners:
            if self._is_gone(owner):
                connection.execute(
                    f"UPDATE request SET state = ? WHERE owner = ? AND taken_at IS NULL AND state IN ({_marks(OPEN)})",  # noqa: S608
                    (QueueState.ABANDONED, owner, *OPEN),
                )

    def _find(self, connection: sqlite3.Connection, request_id: str) -> QueuedRequest | None:
        row = connection.execute(f"{_SELECT_REQUESTS} WHERE request_id = ?", (request_id,)).fetchone()
        return None if row is None else _request(row)

    def _keep(self, connection: sqlite3.Connection, grant: ApprovalGrant, now: float) -> None:
        connection.execute(f"DELETE FROM standing WHERE expires_at <= ? AND {_IN_FORCE}", (now,))  # noqa: S608
        count, own = connection.execute(
            "SELECT count(*), total(principal = ?) FROM standing", (grant.principal,)
        ).fetchone()
        rows.room_for_grant(count, int(own))
        _insert(tuple(rows.row_of_grant(grant).values()), connection)

    def _grant(self, row: tuple[Any, ...]) -> ApprovalGrant:
        return grant_of(dict(zip(GRANT_COLUMNS, row, strict=True)), self.path)


def _request(row: tuple[Any, ...]) -> QueuedRequest:
    return request_of(dict(zip(REQUEST_COLUMNS, row, strict=True)))


def _insert(row: Sequence[object], connection: sqlite3.Connection) -> None:
    connection.execute(f"INSERT INTO standing ({', '.join(GRANT_COLUMNS)}) VALUES ({_marks(GRANT_COLUMNS)})", row)  # noqa: S608


def _forget(grant: ApprovalGrant, connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM standing WHERE answer_id = ?", (grant.answer_id,))


def _unanswer(grant: ApprovalGrant, connection: sqlite3.Connection) -> None:
    """The request waits again, unless it is over by now."""
    _forget(grant, connection)
    connection.execute(
        "UPDATE request SET state = ?, approver = '', note = '', answered_at = NULL WHERE request_id = ? AND state = ?",
        (QueueState.WAITING, grant.request_id, QueueState.APPROVED),
    )


def _marks(names: Sequence[str]) -> str:
    return ", ".join("?" for _ in names)
