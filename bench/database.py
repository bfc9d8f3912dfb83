"""What the service's database costs: `python -m bench.database [--url postgresql://...]`.

A point read, a durable write and one that is not, one at a time with pauses and 16 at a time without; beside bare
`sqlite3`. Times in milliseconds as the caller on the event loop sees them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select

from moonpool.store.database.addresses import database_address
from moonpool.store.database.opening import open_database
from moonpool.store.database.tables import ORGANISATION

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.store.database.base import Database

_PAUSE_S = 0.002
_NAMES = iter(range(1_000_000_000))


async def measured(database: Database, rounds: int) -> dict[str, Any]:
    """Every figure of one database, in turns so that noise falls on all."""

    async def write(*, durable: bool) -> None:
        row = insert(ORGANISATION).values(id=f"b{time.time_ns()}-{next(_NAMES)}", name="x", created_at=1.0)
        await database.write(lambda connection: connection.execute(row), durable=durable)

    await write(durable=True)
    (known,) = await database.read(select(ORGANISATION.c.id).limit(1))
    cases: dict[str, Callable[[], Awaitable[object]]] = {
        "read": lambda: database.read(select(ORGANISATION).where(ORGANISATION.c.id == known.id)),
        "write, durable": lambda: write(durable=True),
        "write, not durable": lambda: write(durable=False),
    }
    times: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + 20):
        for name, case in cases.items():
            await asyncio.sleep(_PAUSE_S)
            began = time.perf_counter()
            await case()
            if number >= 20:
                times[name].append((time.perf_counter() - began) * 1000)
    found: dict[str, Any] = {name: _figures(values) for name, values in times.items()}
    for name, case in cases.items():
        found[f"{name}, 16 at a time, per second"] = round(await _rate(case, rounds))
    return found


async def _rate(case: Callable[[], Awaitable[object]], rounds: int) -> float:
    async def many() -> None:
        for _ in range(rounds // 4):
            await case()

    began = time.perf_counter()
    await asyncio.gather(*(many() for _ in range(16)))
    return rounds // 4 * 16 / (time.perf_counter() - began)


def bare(folder: Path, rounds: int) -> dict[str, Any]:
    """The same with Python's `sqlite3` and nothing else, blocking."""
    connection = sqlite3.connect(folder / "bare.sqlite3", isolation_level=None)
    for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE o (id TEXT PRIMARY KEY)"):
        connection.execute(statement)
    times: dict[str, list[float]] = {"read": [], "write, durable": []}
    for number in range(rounds):
        time.sleep(_PAUSE_S)
        began = time.perf_counter()
        connection.execute("INSERT INTO o VALUES (?)", (str(number),))
        written = time.perf_counter()
        connection.execute("SELECT * FROM o WHERE id = ?", (str(number),)).fetchall()
        times["read"].append((time.perf_counter() - written) * 1000)
        times["write, durable"].append((written - began) * 1000)
    connection.close()
    return {name: _figures(values) for name, values in times.items()}


def _figures(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {"p50": round(statistics.median(ordered), 3), "p95": round(ordered[int(len(ordered) * 0.95)], 3)}


async def _main(url: str, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        found: dict[str, Any] = {"bare sqlite3": bare(Path(name), rounds)}
        async with open_database(database_address("", Path(name))) as database:
            found["SQLite"] = await measured(database, rounds)
        if url:
            async with open_database(database_address(url, Path(name))) as database:
                found["PostgreSQL"] = await measured(database, rounds)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="", help="of an empty PostgreSQL database, which it fills")
    parser.add_argument("--rounds", type=int, default=500)
    options = parser.parse_args()
    print(json.dumps(asyncio.run(_main(options.url, options.rounds)), indent=1))
