"""Appends to a journal until it is killed, again and again: what `test_journal_process_kills` runs.

`appender.py WHERE KILLS SEED ACKNOWLEDGED`: WHERE is a file, or the URL of a PostgreSQL database. Two processes at a
time append to the journal, as two replicas do; each is killed after some hundredths of a second. What they awaited is
in the file ACKNOWLEDGED, a line `RUN_ID CALL_ID` each. They are forked, since a start of Python takes longer than they
live.
"""

from __future__ import annotations

import asyncio
import functools
import os
import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import asyncpg  # noqa: F401  before the forks

from store.audit_records import intent, outcome
from store.journals import journal_at
from waiting import wait_until


async def append(where: str, run_id: str, acknowledged: int) -> None:
    async with journal_at(where) as journal:
        call_id = 0

        async def one(call_id: int) -> None:
            await journal.record(intent(call_id, run_id) if call_id % 3 else outcome(call_id, run_id))
            os.write(acknowledged, f"{run_id} {call_id}\n".encode())

        while True:
            await asyncio.gather(*(one(call_id + number) for number in range(3)))
            call_id += 3


def main(where: str, kills: int, seed: int, path: str) -> None:
    acknowledged = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    chance = random.Random(seed)  # noqa: S311  so that a run can be repeated
    alive: list[int] = []
    for number in range(kills):
        if (pid := os.fork()) == 0:
            asyncio.run(append(where, f"run_{number}", acknowledged))
        alive.append(pid)
        if number % 3:  # the others are killed perhaps before they are connected
            wait_until(functools.partial(has_grown, path, Path(path).stat().st_size), within_s=60)
        time.sleep(chance.random() / 20)
        if len(alive) == 2:
            end(alive.pop(0))
    for pid in alive:
        end(pid)


def has_grown(path: str, size: int) -> bool:
    return Path(path).stat().st_size > size


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
