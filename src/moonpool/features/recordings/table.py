"""Recordings as one SQLite file: schema, writing, reading, removing what is old. Blocking; never on the loop.

Contents are blobs of typed parts, sealed as `moonpool.store.sealing` says; what is searched by stands beside them.
SECURITY: whoever changes the file gets a refusal or a wrong replay, nothing else: blobs are bounded and typed on
reading, and a replay compares code, arguments and results with the journal (`moonpool.replay.source`).

The writer is `moonpool.features.recordings.writer`. A file that is damaged costs recordings, never an execution.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from moonpool.core.shares import fair_share
from moonpool.features.recordings.model import (
    RUN_BYTES_MAX,
    RecordedCall,
    RecordedInstall,
    RecordedReply,
    Recording,
    RecordingError,
    RecordingRef,
    RunEnd,
    RunHeader,
    SharedPart,
)
from moonpool.store.private_files import StoreFolderError, create_private_file, private_folder
from moonpool.store.sealing import SecretStoreError, Unsealable
from moonpool.store.sqlite_faults import sqlite_fault
from moonpool_wire.limits import NONDETERMINISM_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from moonpool.features.recordings.model import Part
    from moonpool.store.sealing import Sealer

SCHEMA_VERSION: Final = 2
PART_KINDS: Final = {RunHeader: 0, RecordedCall: 1, RecordedReply: 2, RunEnd: 3, RecordedInstall: 4}
_DAY_S: Final = 86_400.0
_OLDEST_AT_ONCE: Final = 64
_RUN_COLUMNS: Final = "run_id, at, principal, session_id, sandbox_id, position, bytes, problem"
_T = TypeVar("_T")
encode = msgspec.msgpack.Encoder().encode

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS run (
    run_id TEXT PRIMARY KEY, at TEXT NOT NULL, written_s REAL NOT NULL, session_id TEXT NOT NULL,
    sandbox_id TEXT NOT NULL, position INTEGER NOT NULL, bytes INTEGER NOT NULL, shared TEXT NOT NULL,
    problem TEXT NOT NULL, principal TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS run_by_sandbox ON run (sandbox_id, position);
CREATE INDEX IF NOT EXISTS run_by_time ON run (written_s);
CREATE INDEX IF NOT EXISTS run_by_principal ON run (principal, written_s);
CREATE TABLE IF NOT EXISTS part (run_id TEXT NOT NULL, number INTEGER NOT NULL, kind INTEGER NOT NULL,
    body BLOB NOT NULL, PRIMARY KEY (run_id, number));
CREATE TABLE IF NOT EXISTS shared (digest TEXT PRIMARY KEY, body BLOB NOT NULL);
"""


class RecordingsFile:
    """One connection. Used by one thread at a time. Methods of writing raise sqlite3.Error, those of reading do not."""

    def __init__(self, path: Path, sealer: Sealer, *, make: bool = True) -> None:
        """Raises RecordingError. `make`: a file that is not there is made."""
        self.path, self._sealer = path, sealer
        if not make and not path.exists():
            raise RecordingError("nothing is recorded here; recording is on unless MOONPOOL_RECORD is off")
        try:
            private_folder(path.parent)
            create_private_file(path)
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=5.0, check_same_thread=False)
        except (OSError, StoreFolderError, sqlite3.Error) as error:
            raise RecordingError(f"recordings {path} cannot be opened: {error}") from None
        with self._reading():
            self._prepare()

    def _prepare(self) -> None:
        one = self._connection
        one.execute("PRAGMA auto_vacuum=INCREMENTAL")
        one.execute("PRAGMA journal_mode=WAL")
        one.execute("PRAGMA synchronous=NORMAL")
        one.execute("PRAGMA secure_delete=ON")  # what is removed is not to be found in the file
        with self.transaction():
            version = one.execute("PRAGMA user_version").fetchone()[0]
            if version > SCHEMA_VERSION:
                raise RecordingError(f"recordings {self.path} were written by a newer Moonpool; use that one")
            if version == 1:  # it told nobody's recordings apart
                one.execute("ALTER TABLE run ADD COLUMN principal TEXT NOT NULL DEFAULT ''")
            for statement in _SCHEMA.split(";")[:-1]:
                one.execute(statement)
            one.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    def close(self) -> None:
        self._connection.close()

    # --- writing

    @contextmanager
    def transaction(self) -> Generator[None]:
        """One commit for what is written inside."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def has_shared(self, digest: str) -> bool:
        return self._connection.execute("SELECT 1 FROM shared WHERE digest = ?", (digest,)).fetchone() is not None

    def add_shared(self, digest: str, part: SharedPart) -> None:
        body = self._sealer.seal(encode(part), f"shared/{digest}")
        self._connection.execute("INSERT OR IGNORE INTO shared VALUES (?, ?)", (digest, body))

    def add_run(self, ref: RecordingRef, shared: str) -> None:
        where = (ref.session_id, ref.sandbox_id, ref.position)
        row = (ref.run_id, ref.at, time.time(), *where, 0, shared, "", ref.principal)
        self._connection.execute("INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def add_part(self, run_id: str, number: int, part: Part | RunHeader) -> int:
        """How many bytes it takes; none where the recording was removed while it was written."""
        body = self._sealer.seal(encode(part), f"{run_id}/{number}")
        known = self._connection.execute("UPDATE run SET bytes = bytes + ? WHERE run_id = ?", (len(body), run_id))
        if not known.rowcount:
            return 0
        self._connection.execute("INSERT INTO part VALUES (?, ?, ?, ?)", (run_id, number, PART_KINDS[type(part)], body))
        return len(body)

    def give_up(self, run_id: str, problem: str) -> None:
        """This run cannot be replayed: keep nothing of it but why."""
        self._connection.execute("DELETE FROM part WHERE run_id = ?", (run_id,))
        self._connection.execute("UPDATE run SET problem = ?, bytes = 0 WHERE run_id = ?", (problem, run_id))

    def tidy(self, *, days: float, bytes_max: int) -> None:
        """Remove what is too old, then the oldest of those who have most until the rest fits. In transactions."""
        one = self._connection
        with self.transaction():
            old = "SELECT run_id FROM run WHERE written_s < ?"
            gone = [row[0] for row in one.execute(old, (time.time() - days * _DAY_S,))]
            self._drop(gone)
        sizes = dict[str, int](one.execute("SELECT principal, sum(bytes) FROM run GROUP BY principal").fetchall())
        share = fair_share(sizes.values(), bytes_max)
        for principal in (one for one, size in sizes.items() if size > share):
            while self._shrink(principal, share):
                pass
        with self.transaction():
            one.execute("DELETE FROM shared WHERE digest NOT IN (SELECT shared FROM run)")
        self._shrink_file()

    def _shrink_file(self) -> None:
        """Give the pages that are free back to the disk."""
        self._connection.executescript("PRAGMA incremental_vacuum")  # `execute` steps once, which frees one page

    def _shrink(self, principal: str, share: float) -> bool:
        """Remove some of the oldest of one principal who has more than `share`; whether he still may have."""
        one, gone = self._connection, list[str]()
        with self.transaction():  # another process may do the same
            total = one.execute("SELECT total(bytes) FROM run WHERE principal = ?", (principal,)).fetchone()[0]
            oldest = "SELECT run_id, bytes FROM run WHERE principal = ? ORDER BY written_s LIMIT ?"
            for run_id, size in one.execute(oldest, (principal, _OLDEST_AT_ONCE)).fetchall():
                if total <= share:
                    break
                gone.append(run_id)
                total -= size
            self._drop(gone)
        return bool(gone) and total > share

    def _drop(self, run_ids: list[str]) -> None:
        self._connection.executemany("DELETE FROM part WHERE run_id = ?", ((one,) for one in run_ids))
        self._connection.executemany("DELETE FROM run WHERE run_id = ?", ((one,) for one in run_ids))

    # --- reading: `moonpool.features.recordings.model.RecordingReader`

    def load(self, run_id: str) -> Recording:
        with self._reading():
            row = self._connection.execute("SELECT problem, shared FROM run WHERE run_id = ?", (run_id,)).fetchone()
            if row is None:
                raise RecordingError(
                    f"{run_id} is not recorded: recording was off, or the recording was removed, is older than "
                    "MOONPOOL_RECORDING_DAYS or made space for newer ones; run the code again, then replay that"
                )
            problem, digest = row
            if problem:
                raise RecordingError(f"{run_id} cannot be replayed: {problem}")
            size = "SELECT total(length(body)) FROM part WHERE run_id = ?"  # not what another column says of it
            if self._connection.execute(size, (run_id,)).fetchone()[0] > 2 * RUN_BYTES_MAX:
                raise self._damaged(run_id)
            query = "SELECT number, kind, body FROM part WHERE run_id = ? ORDER BY number"
            parts = self._connection.execute(query, (run_id,)).fetchall()
            kept = self._connection.execute("SELECT body FROM shared WHERE digest = ?", (digest,)).fetchone()
        return self._assemble(run_id, parts, digest, kept[0] if kept else b"")

    def of_sandbox(self, sandbox_id: str) -> list[RecordingRef]:
        with self._reading():
            query = f"SELECT {_RUN_COLUMNS} FROM run WHERE sandbox_id = ? ORDER BY position"  # noqa: S608  ours
            return [_ref(row) for row in self._connection.execute(query, (sandbox_id,))]

    def newest(self, count: int) -> list[RecordingRef]:
        with self._reading():
            query = f"SELECT {_RUN_COLUMNS} FROM run ORDER BY written_s DESC LIMIT ?"  # noqa: S608  ours
            return [_ref(row) for row in self._connection.execute(query, (count,))]

    def remove(self, run_ids: list[str] | None) -> int:
        with self._reading(), self.transaction():
            known = {row[0] for row in self._connection.execute("SELECT run_id FROM run")}
            gone = sorted(known if run_ids is None else known.intersection(run_ids))
            self._drop(gone)
            self._connection.execute("DELETE FROM shared WHERE digest NOT IN (SELECT shared FROM run)")
        with self._reading():
            self._shrink_file()
        return len(gone)

    def _assemble(self, run_id: str, rows: list[tuple[int, int, object]], digest: str, shared: object) -> Recording:
        if [number for number, _, _ in rows] != list(range(len(rows))) or not rows or rows[0][1] != 0:
            raise self._damaged(run_id)
        bodies: dict[int, list[bytes]] = {kind: [] for kind in PART_KINDS.values()}
        for number, kind, body in rows:
            bodies.setdefault(kind, []).append(self._open(body, f"{run_id}/{number}", run_id))
        calls = tuple(self._typed(body, RecordedCall, run_id) for body in bodies[1])
        replies = tuple(self._typed(body, RecordedReply, run_id) for body in bodies[2])
        ends = [self._typed(body, RunEnd, run_id) for body in bodies[3]]
        header = self._typed(bodies[0][0], RunHeader, run_id)
        seqs = {call.seq for call in calls}
        whole = len(seqs) == len(calls) and seqs.issuperset(one.seq for one in replies)
        too_long = any(len(end.nondeterminism_log) > NONDETERMINISM_BYTES_MAX for end in ends)
        if header.run_id != run_id or not whole or too_long:
            raise self._damaged(run_id)
        return Recording(
            header=header,
            shared=self._typed(self._open(shared, f"shared/{digest}", run_id), SharedPart, run_id),
            calls=calls,
            replies=replies,
            installs=tuple(self._typed(body, RecordedInstall, run_id) for body in bodies[4]),
            end=ends[-1] if ends else None,
        )

    def _open(self, body: object, place: str, run_id: str) -> bytes:
        if not isinstance(body, bytes):
            raise self._damaged(run_id)
        try:
            return self._sealer.open(body, place)
        except Unsealable:
            raise RecordingError(
                f"the recording of {run_id} was sealed with another key, or changed; give the key that was in force, "
                f"or remove it: moonpool recordings remove {run_id}"
            ) from None
        except SecretStoreError as error:
            raise RecordingError(f"the recording of {run_id} cannot be opened: {error}") from None

    def _typed(self, body: bytes, kind: type[_T], run_id: str) -> _T:
        try:
            return msgspec.msgpack.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self._damaged(run_id) from None

    def _damaged(self, run_id: str) -> RecordingError:
        return RecordingError(
            f"the recording of {run_id} is damaged or was changed; remove it: moonpool recordings remove {run_id}"
        )

    @contextmanager
    def _reading(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise RecordingError(f"the file of recordings {self.path} {sqlite_fault(error)}") from None


def _ref(row: tuple[object, ...]) -> RecordingRef:
    """SQLite keeps values of any type in any column of a file that was tampered with."""
    *texts, position, size, problem = row
    run_id, at, principal, session_id, sandbox_id = map(str, texts)
    return RecordingRef(
        run_id=run_id,
        at=at,
        principal=principal,
        session_id=session_id,
        sandbox_id=sandbox_id,
        position=position if isinstance(position, int) else -1,
        bytes=size if isinstance(size, int) else 0,
        problem=str(problem),
    )
