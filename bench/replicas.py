"""Processes of `moonpool serve` that are killed at random instants under load: `service_kills`, `thread_kills`."""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

CLIENTS: Final = 4
LEASE_S: Final = 4.0
SETTLED_S_MAX: Final = 120.0
_PAUSE_S: Final = 1.0
_WHILE_STARTING: Final = 0.2
"""How often a replica is killed wherever it is; else once it serves."""


class Replica:
    """A process of `moonpool serve` that is started again whenever it has ended."""

    def __init__(
        self, number: int, data: Path, folder: Path, options: Sequence[str], environ: Mapping[str, str]
    ) -> None:
        """`data` has the environments; `environ` is added to ours."""
        self._log, self.base = folder / f"replica-{number}.log", ""
        self._command = [
            *(sys.executable, "-c", "from moonpool.cli.main import main; main()", "serve", "--no-auth", "--port", "0"),
            *(*options, "--data-dir", str(state_of(folder, number))),
        ]
        self._environ = {**os.environ, "MOONPOOL_DATA_DIR": str(data), **environ}
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("wb") as log:
            return subprocess.Popen(
                self._command, env=self._environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def look(self) -> str:
        """Its address, once it serves."""
        if not self.base and (found := re.search(rb"MCP at (http://\S+)/mcp\n", self._log.read_bytes())):
            self.base = found[1].decode()
        return self.base

    def said(self) -> str:
        return self._log.read_text("utf-8", "replace")[-2000:]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.base, self.process = "", self._start()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(60)


def state_of(folder: Path, number: int) -> Path:
    """What a replica's `--data-dir` is."""
    return folder / f"state-{number}"


async def serves(replica: Replica) -> None:
    end = time.monotonic() + SETTLED_S_MAX
    while not replica.look():
        assert replica.process.poll() is None, replica.said()
        assert time.monotonic() < end, "a replica does not start"
        await asyncio.sleep(0.05)


class Killing:
    """Clients ask, `ask`, while replicas are killed; what is found is said by whoever extends it."""

    def __init__(self, replicas: list[Replica], *, seed: int) -> None:
        self._random, self._replicas = random.Random(seed), replicas  # noqa: S311
        self._answered: set[str] = set()
        self.kills = 0

    async def ask(self, lane: int) -> None:
        """Have something done by whichever replica serves, until cancelled."""
        raise NotImplementedError

    def served(self) -> bool:
        """Whether everything that clients ask for was answered once: no run ends before, however few its kills."""
        return bool(self._answered)

    async def settled(self) -> None:
        """What is done once the last kill is over and all serve."""

    async def kill(self, kills: int) -> None:
        """Afterwards no replica runs."""
        try:
            clients = [asyncio.create_task(self.ask(lane)) for lane in range(CLIENTS)]
            await self._all_serve()
            for _ in range(kills):
                if len(self._replicas) == 1 and self._random.random() >= _WHILE_STARTING:
                    had = len(self._answered)  # nobody else gives any
                    await self._until(lambda had=had: len(self._answered) > had)
                replica = await self._victim()
                await asyncio.sleep(self._random.uniform(0, _PAUSE_S))
                await asyncio.to_thread(replica.kill)
                self.kills += 1
            await self._all_serve()
            await self._until(self.served)
            for client in clients:
                client.cancel()
            ended = await asyncio.gather(*clients, return_exceptions=True)
            for one in ended:
                if isinstance(one, Exception):
                    raise one
            await self.settled()
        finally:
            await asyncio.gather(*(asyncio.to_thread(replica.end) for replica in self._replicas))

    def serving(self) -> str:
        """The address of one that serves, or nothing."""
        found = [base for replica in self._replicas if (base := replica.look())]
        return self._random.choice(found) if found else ""

    async def _victim(self) -> Replica:
        """One that serves, or sometimes any."""
        if self._random.random() < _WHILE_STARTING:
            return self._random.choice(self._replicas)
        while not (serving := [replica for replica in self._replicas if replica.look()]):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return self._random.choice(serving)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + SETTLED_S_MAX
        while not is_so():
            assert time.monotonic() < end, f"nothing is answered: {self._replicas[0].said()}"
            await asyncio.sleep(0.02)

    async def _all_serve(self) -> None:
        for replica in self._replicas:
            await serves(replica)


@contextmanager
def kill_folder() -> Generator[Path]:
    """One that sandbox uids may pass through."""
    with TemporaryDirectory(prefix="moonpool-kills-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
