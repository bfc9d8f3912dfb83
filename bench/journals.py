"""`python -m bench.journals [--rounds N] [--quick] [--json]`: a record in the audit journal, SQLite beside PostgreSQL.

Each store in turn, as it is opened for a tenant: a record that need not wait for the disk, one that must, both as a
writing call leaves them (its intent before it, its outcome after it), and 64 callers at once. Beside them the store
itself: one bare `INSERT` of the same row, without chain, index and queue. PostgreSQL is a server of its own with fsync
on, as the tests start it, on the disk that the file is on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import pytest

from bench.sampling import Case, median, percentile, take_turns
from moonpool.core.audit import record_bytes
from moonpool.store.database.addresses import PostgresAddress
from moonpool.store.journal import open_journal
from moonpool.store.postgres_connections import open_connections
from moonpool.store.postgres_journal import open_postgres_journal
from moonpool.store.postgres_schema import create_schema

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from postgres import new_server
from store.audit_records import intent, outcome

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from bench.sampling import Measured
    from moonpool.core.audit import Journal

BUDGET_MS: Final = {"sqlite": 1.5, "postgres": 2.0}
"""What a writing call may cost (issue 16)."""
_CALLERS: Final = 64
_TABLE: Final = "CREATE TABLE bare (seq INTEGER PRIMARY KEY, kind TEXT, run_id TEXT, body {blob}, hash TEXT)"


async def measure(rounds: int, per_round: int) -> Measured:
    with new_server() as server, tempfile.TemporaryDirectory(prefix="moonpool-bench-", dir="/var/tmp") as folder:
        async with _journals(server.url(), Path(folder)) as journals, _bare(server.url(), Path(folder)) as bare:
            cases = [case for name, journal in journals.items() for case in _cases(name, journal, per_round)]
            cases += [Case(name=name, take=_samples(one), per_round=per_round) for name, one in bare.items()]
            return await take_turns("journals", cases, rounds=rounds, warm_ups=3)


@asynccontextmanager
async def _journals(url: str, folder: Path) -> AsyncGenerator[dict[str, Journal]]:
    async with (
        open_journal(folder / "private" / "audit.sqlite3") as file,
        open_connections(PostgresAddress(url, shown="the benchmark's database")) as connections,
    ):
        await create_schema(connections)
        async with open_postgres_journal(connections, "default") as postgres:
            yield {"sqlite": file, "postgres": postgres}


def _cases(name: str, journal: Journal, per_round: int) -> list[Case]:
    async def writing_call(number: int) -> None:
        await journal.record(intent(number))
        await journal.record(outcome(number))

    async def at_once(number: int) -> None:
        await asyncio.gather(*(journal.record(outcome(number + one)) for one in range(_CALLERS)))

    works: dict[str, Callable[[int], Awaitable[object]]] = {
        "record": lambda number: journal.record(outcome(number)),
        "durable": lambda number: journal.record(intent(number)),
        "writing_call": writing_call,
        "at_once": at_once,
    }
    return [Case(name=f"{name}.{what}", take=_samples(work), per_round=per_round) for what, work in works.items()]


@asynccontextmanager
async def _bare(url: str, folder: Path) -> AsyncGenerator[dict[str, Callable[[int], Awaitable[object]]]]:
    """Inserts as the stores do them, durable and not."""
    body = record_bytes(outcome())
    connection = await asyncpg.connect(url)
    await connection.execute(_TABLE.format(blob="bytea").replace("INTEGER PRIMARY KEY", "bigserial PRIMARY KEY"))
    lazy = await asyncpg.connect(url, server_settings={"synchronous_commit": "off"})
    try:
        with closing(sqlite3.connect(folder / "bare.sqlite3", isolation_level=None)) as file:
            file.execute("PRAGMA journal_mode=WAL")
            file.execute(_TABLE.format(blob="BLOB"))

            async def in_file(mode: str) -> None:
                file.execute(f"PRAGMA synchronous={mode}")
                file.execute("INSERT INTO bare (kind, run_id, body, hash) VALUES ('x', 'r', ?, 'h')", (body,))

            insert = "INSERT INTO bare (kind, run_id, body, hash) VALUES ('x', 'r', $1, 'h')"
            yield {
                "sqlite.bare": lambda _: in_file("NORMAL"),
                "sqlite.bare_durable": lambda _: in_file("FULL"),
                "postgres.bare": lambda _: lazy.execute(insert, body),
                "postgres.bare_durable": lambda _: connection.execute(insert, body),
            }
    finally:
        await lazy.close()
        await connection.close()


def _samples(work: Callable[[int], Awaitable[object]]) -> Callable[[int], Awaitable[list[float]]]:
    async def take(count: int) -> list[float]:
        taken: list[float] = []
        for number in range(count):
            started = time.perf_counter()
            await work(number)
            taken.append((time.perf_counter() - started) * 1000)
        return taken

    return take


def report(measured: Measured) -> dict[str, Any]:
    """Milliseconds by row, and how many times PostgreSQL takes what SQLite takes."""
    rows = {
        name: {"p50_ms": round(median(taken), 4), "p95_ms": round(percentile(taken, 0.95), 4), "n": len(taken)}
        for name in measured.rounds
        if (taken := measured.samples(name))
    }
    whats = [name.removeprefix("sqlite.") for name in rows if name.startswith("sqlite.")]
    ratios = {what: round(rows[f"postgres.{what}"]["p50_ms"] / rows[f"sqlite.{what}"]["p50_ms"], 2) for what in whats}
    return {"rows": rows, "postgres_vs_sqlite": ratios, "load": [measured.load_before, measured.load_after]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="four rounds")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    try:
        found = report(asyncio.run(measure(4 if options.quick else options.rounds, per_round=50)))
    except pytest.skip.Exception as missing:
        print(f"bench.journals: {missing}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(found))
        return 0
    for name, row in sorted(found["rows"].items()):
        store, _, what = name.partition(".")
        budget = f"  (at most {BUDGET_MS[store]})" if what == "writing_call" else ""
        print(f"{name:24} p50 {row['p50_ms']:8.3f} ms  p95 {row['p95_ms']:8.3f} ms{budget}")
    print("PostgreSQL : SQLite  ", ", ".join(f"{what} {ratio}" for what, ratio in found["postgres_vs_sqlite"].items()))
    print("load                 ", *found["load"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
