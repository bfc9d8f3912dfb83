"""Reading and verifying the audit journal's file, by whoever may read it. Blocking; never on the loop.

The file may have been tampered with: rows come as they are, and only `verify_file` says whether they are ours.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from moonpool.core.audit import GENESIS, AuditRow, ChainOutcome, JournalError, verify_rows
from moonpool.store.process_marks import is_gone

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

_TYPES: Final = {"seq": "integer", "kind": "text", "run_id": "text", "body": "blob", "hash": "text"}


class FileJournalReader:
    """The `JournalReader` of the file at `path`."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)

    def identity(self) -> object:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise journal_error(self.path, exc) from exc
        return found.st_dev, found.st_ino

    def rows(self, *, run_id: str | None = None, tail: int | None = None, after: int = 0) -> Generator[AuditRow]:
        return read_rows(self.path, run_id=run_id, tail=tail, after=after)

    def run(self, run_id: str) -> list[tuple[str, AuditRow]]:
        return read_run(self.path, run_id)

    def ended(self, run_ids: Sequence[str]) -> set[str]:
        return ended_runs(self.path, run_ids)

    def newest_run(self) -> str | None:
        return newest_run(self.path)

    def has(self, run_id: str, kind: str) -> bool:
        return has_row(self.path, run_id, kind)

    def is_gone(self, process: str) -> bool | None:
        return is_gone(process)

    def stored_rows(self) -> Generator[AuditRow]:
        return stored_rows(self.path)

    def verify(self, *, anchor: tuple[int, str] | None = None) -> ChainOutcome:
        return verify_file(self.path, anchor=anchor)


@contextmanager
def reading(path: Path) -> Generator[sqlite3.Connection]:
    """A connection that cannot write. Raises JournalError."""
    if not path.exists():
        raise JournalError(f"there is no audit journal at {path}; it is made by the first execution")
    try:
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5.0)
        try:
            yield connection
        finally:
            connection.close()
    except sqlite3.Error as exc:
        raise journal_error(path, exc) from exc


def read_rows(path: Path, *, run_id: str | None = None, tail: int | None = None, after: int = 0) -> Generator[AuditRow]:
    """Rows in order: all, those of one run, those that came `after` one, and of them the last `tail`.

    Raises JournalError.
    """
    where = "seq > :after" if run_id is None else "seq > :after AND run_id = :run_id"
    query = f"SELECT seq, kind, run_id, body, hash FROM record WHERE {where} ORDER BY seq"  # noqa: S608  `where` is ours
    if tail is not None:
        query = f"SELECT * FROM ({query} DESC LIMIT :tail) ORDER BY seq"  # noqa: S608
    with reading(path) as connection:
        for seq, kind, run, body, digest in connection.execute(query, {"run_id": run_id, "tail": tail, "after": after}):
            yield _row(seq, kind, run, body, digest)


def read_run(path: Path, run_id: str) -> list[tuple[str, AuditRow]]:
    """The rows of one execution in order, each with the hash of the row before it. Raises JournalError."""
    query = (
        "SELECT r.seq, r.kind, r.run_id, r.body, r.hash, p.hash FROM record r "
        "LEFT JOIN record p ON p.seq = r.seq - 1 WHERE r.run_id = ? ORDER BY r.seq"
    )
    with reading(path) as connection:
        return [
            (_text(previous or GENESIS), _row(seq, kind, run, body, digest))
            for seq, kind, run, body, digest, previous in connection.execute(query, (run_id,))
        ]


def ended_runs(path: Path, run_ids: Sequence[str]) -> set[str]:
    """Those of `run_ids` whose end is on record. Raises JournalError."""
    with reading(path) as connection:
        query = "SELECT 1 FROM record WHERE run_id = ? AND kind = 'execution_end'"
        return {one for one in run_ids if connection.execute(query, (one,)).fetchone() is not None}


def newest_run(path: Path) -> str | None:
    """The execution that began last, other than replays; None when there is none. Raises JournalError."""
    query = "SELECT run_id, body FROM record WHERE kind = 'execution_start' ORDER BY seq DESC"
    with reading(path) as connection:
        rows = connection.execute(query)
        return next((_text(run_id) for run_id, body in rows if not is_replay(_bytes(body))), None)


def has_row(path: Path, run_id: str, kind: str) -> bool:
    """Whether there is a record of this kind under this id. Raises JournalError."""
    with reading(path) as connection:
        found = connection.execute("SELECT 1 FROM record WHERE run_id = ? AND kind = ?", (run_id, kind)).fetchone()
    return found is not None


def verify_file(path: Path, *, anchor: tuple[int, str] | None = None) -> ChainOutcome:
    """Walk the whole chain of the journal at `path`. Raises JournalError when it cannot be read at all."""
    return verify_rows(stored_rows(path), anchor=anchor)


def stored_rows(path: Path) -> Generator[AuditRow]:
    """Every row of the table, also those that no record of ours can be: with a number below 1, none, or a text.

    A row whose columns are not of their types comes without content. Raises JournalError.
    """
    sound = " AND ".join(f"typeof({name}) = '{kind}'" for name, kind in _TYPES.items())
    query = f"SELECT seq, kind, run_id, body, hash, {sound} FROM record ORDER BY seq"  # noqa: S608  names of ours
    with reading(path) as connection:
        for seq, kind, run, body, digest, is_sound in connection.execute(query):
            number = seq if isinstance(seq, int) else 0
            if is_sound:
                yield AuditRow(seq=number, kind=kind, run_id=run, body=body, hash=digest)
            else:
                yield AuditRow(seq=number, kind="", run_id="", body=b"", hash="")


def journal_error(path: Path, cause: Exception) -> JournalError:
    """The typed error for what SQLite said, with the remedy."""
    if isinstance(cause, JournalError):
        return cause
    text = str(cause)
    if path.is_dir():
        remedy = "is a folder; remove it, Moonpool then starts a journal there"
    elif isinstance(cause, OSError):
        remedy = f"cannot be used: {cause.strerror or cause}"
    elif "disk I/O" in text:  # what SQLite says when there is no room for its shared memory, among others
        remedy = "cannot be used: disk I/O error. Its disk may be full: free some space and try again"
    elif "locked" in text or "busy" in text:
        remedy = "is locked by another process; end that process, or wait until it is done, and try again"
    elif "full" in text:
        remedy = "cannot grow because the disk is full; free some space and try again"
    elif "malformed" in text or "not a database" in text:
        remedy = "is damaged; keep it as evidence under another name, Moonpool then starts a new one"
    else:
        remedy = f"cannot be used: {text}"
    return JournalError(f"audit journal {path} {remedy}")


def _row(seq: object, kind: object, run_id: object, body: object, digest: object) -> AuditRow:
    """A row for those who read; SQLite keeps values of any type in any column of a file that was tampered with."""
    number = seq if isinstance(seq, int) else 0
    return AuditRow(seq=number, kind=_text(kind), run_id=_text(run_id), body=_bytes(body), hash=_text(digest))


def _text(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def is_replay(body: bytes) -> bool:
    """Whether this start of an execution is a replay's, or no start of ours."""
    try:
        return bool(json.loads(body).get("replay_of"))
    except (ValueError, AttributeError, RecursionError):  # no record of ours; `audit verify` says so
        return True


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
