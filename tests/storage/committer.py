"""Commits to a thread until it is killed, again and again: what `test_kills` runs.

`committer.py DATA KILLS SEED ACKNOWLEDGED`: each process changes a counter, small files and a large one in one commit,
and writes the number of each commit that was acknowledged as a line to ACKNOWLEDGED. It is killed after some
hundredths of a second. They are forked, since a start of Python takes longer than they live.
"""

from __future__ import annotations

import asyncio
import functools
import os
import random
import signal
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from moonpool.bootstrap.storage import open_trees
from moonpool.settings import Settings
from moonpool.store.database.addresses import database_address
from moonpool.store.database.opening import open_database
from storage.worlds import THREAD, put, read
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.features.storage.service import StoredTrees

LARGE_BYTES = 9 * 1024**2


@asynccontextmanager
async def opened(data: Path) -> AsyncGenerator[StoredTrees]:
    """As the service does."""
    async with (
        open_database(database_address("", data)) as database,
        open_trees(Settings(), data, {}, database) as trees,
    ):
        yield trees


async def commit(data: Path, acknowledged: int) -> None:
    async with opened(data) as trees:
        while True:
            async with trees.of("acme").hold(THREAD, "trc_1") as held:
                found = held.snapshot.tree.find("count")
                count = 1 + (0 if found is None else int(await read(held.snapshot, "count")))
                writer = held.writer()
                content = str(count).encode()
                await put(writer, "count", content)
                await put(writer, f"folder/{count % 7}", content)
                if count % 3 == 0:
                    await put(writer, "large", content.rjust(LARGE_BYTES))
                else:
                    writer.remove("large")
                await held.commit(writer)
            os.write(acknowledged, content + b"\n")


def main(data: Path, kills: int, seed: int, path: str) -> None:
    acknowledged = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    chance = random.Random(seed)  # noqa: S311  so that a run can be repeated
    for number in range(kills):
        if (pid := os.fork()) == 0:
            asyncio.run(commit(data, acknowledged))
        if number % 3:  # the others are killed perhaps before they have opened anything
            wait_until(functools.partial(has_grown, path, Path(path).stat().st_size), within_s=60)
        time.sleep(chance.random() / 10)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def has_grown(path: str, size: int) -> bool:
    return Path(path).stat().st_size > size


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
