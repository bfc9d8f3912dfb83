"""`python -m bench.thread_kills [--database-url URL --files-url URL] [--kills N] [--seed N]`: kill -9 under writes.

With URLs two `moonpool serve` are on one empty PostgreSQL database and one empty bucket, without them a single one has
a data folder. Clients have code write into threads, by `/v1/sandbox/execute`, and send files by signed URLs; now and
then one service is killed, wherever it is, also while it starts, and started again. In the end every write that was
acknowledged must be there; every execution must have left all that it writes or nothing; every file must be readable
and be what its writer wrote; and no code may have run twice. Ends with 1 when anything of that is not so. Short forms
are in the tests (`tests/from_baponi/test_kills.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import sys
from base64 import b64encode
from collections import Counter
from dataclasses import dataclass, field
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Final

import httpx2

from bench.replicas import LEASE_S, Killing, Replica, kill_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

THREADS: Final = 8
SHARED: Final = "shared"
"""Every client writes into this thread, too: they refuse each other there."""
_LARGE: Final = 9 * 1024**2  # more than one blob
_CODE: Final = """
import hashlib
def content(name, size):
    return (hashlib.sha256(name.encode()).hexdigest().encode() * (size // 64 + 1))[:size]
for part in ("a", "b"):
    name = f"{part}-%(token)s"
    with open(name, "xb") as file:
        file.write(content(name, %(size)d))
with open("log", "a") as log:
    log.write("%(token)s\\n")
print("%(token)s")
"""


def content_of(name: str, size: int) -> bytes:
    """What a file of this name has."""
    return (hashlib.sha256(name.encode()).hexdigest().encode() * (size // 64 + 1))[:size]


@dataclass(slots=True)
class ThreadKillOutcome:
    """What was found."""

    kills: int = 0
    executions: int = 0  # that were answered with success
    uploads: int = 0
    refused: Counter[int] = field(default_factory=Counter[int])
    files: int = 0
    unanswered: int = 0  # whose writes are there all the same
    faults: list[str] = field(default_factory=list[str])

    def summary(self) -> str:
        refused = ", ".join(f"{count} x {status}" for status, count in sorted(self.refused.items())) or "none"
        return (
            f"{self.kills} kills: {self.executions:,} executions and {self.uploads:,} uploads acknowledged, "
            f"{self.files:,} files read again, {self.unanswered} writes without an answer are there whole; "
            f"refused: {refused}; {len(self.faults)} faults"
        )


@dataclass(frozen=True, slots=True)
class _Write:
    thread: str
    token: str
    size: int
    is_upload: bool

    @property
    def files(self) -> tuple[str, ...]:
        return (f"up-{self.token}",) if self.is_upload else (f"a-{self.token}", f"b-{self.token}")


class ThreadKilling(Killing):
    """`environ`: `MOONPOOL_DATABASE_URL`, `MOONPOOL_FILES_URL` and their credentials; two replicas if there are any.

    `data` has the environments.
    """

    def __init__(self, environ: Mapping[str, str], data: Path, folder: Path, *, seed: int) -> None:
        own = {"MOONPOOL_REPLICA_LEASE_S": str(LEASE_S)} if environ else {"MOONPOOL_DATABASE_URL": ""}
        environ = {"MOONPOOL_ENVIRONMENT": "base", **own, **environ}
        options = ("--profile", "baponi")
        count = 2 if "MOONPOOL_FILES_URL" in environ else 1
        super().__init__([Replica(number, data, folder, options, environ) for number in range(count)], seed=seed)
        self._writes: dict[str, _Write] = {}
        self.outcome = ThreadKillOutcome()

    async def run(self, kills: int) -> ThreadKillOutcome:
        await self.kill(kills)
        return self.outcome

    async def ask(self, lane: int) -> None:
        async with httpx2.AsyncClient(timeout=60) as http:
            for turn in range(1_000_000):
                if not (base := self.serving()):
                    await asyncio.sleep(0.05)
                    continue
                write = self._next_write(lane, turn)
                self._writes[write.token] = write
                send = self._upload if write.is_upload else self._execute
                try:
                    await send(http, base, write)
                except (httpx2.HTTPError, KeyError, ValueError):  # it was killed, or starts
                    await asyncio.sleep(0.02)

    def _next_write(self, lane: int, turn: int) -> _Write:
        number = self._random.randrange(THREADS + 1)
        thread = SHARED if number == THREADS else f"lane-{lane}-{number}"
        size = _LARGE if self._random.random() < 0.01 else self._random.choice((0, 10, 5_000, 200_000))
        return _Write(thread, f"{lane}-{turn}", size, is_upload=self._random.random() < 0.4)

    async def _execute(self, http: httpx2.AsyncClient, base: str, write: _Write) -> None:
        code = _CODE % {"token": write.token, "size": write.size}
        body = {"code": code, "thread_id": write.thread, "metadata": {"token": write.token}}
        answer = await http.post(f"{base}/v1/sandbox/execute", json=body)
        told = answer.json()
        if answer.status_code != 200:
            self.outcome.refused[answer.status_code] += 1
            await asyncio.sleep(0.05)
        elif told["success"] and told["stdout"] == f"{write.token}\n":
            self._answered.add(write.token)
            self.outcome.executions += 1
        elif "FileExistsError" in told["stderr"]:
            self.outcome.faults.append(f"{write.token} ran twice")

    async def _upload(self, http: httpx2.AsyncClient, base: str, write: _Write) -> None:
        (name,) = write.files
        asked = {"source": "thread", "id": write.thread, "path": name, "content_length": write.size}
        signed = (await http.post(f"{base}/v1/files/upload_url", json=asked)).json()
        headers = {one["name"]: one["value"] for one in signed["headers"]}
        answer = await http.request(
            signed["method"], signed["url"], content=content_of(name, write.size), headers=headers
        )
        if not answer.is_success:
            self.outcome.refused[answer.status_code] += 1
            return
        self._answered.add(write.token)
        self.outcome.uploads += 1

    # --- afterwards

    def served(self) -> bool:
        return self.outcome.executions > 0 and self.outcome.uploads > 0

    async def settled(self) -> None:
        self.outcome.kills = self.kills
        async with httpx2.AsyncClient(timeout=120, base_url=self.serving()) as http:
            found: set[str] = set()
            for thread in sorted({write.thread for write in self._writes.values()}):
                found |= await self._look(http, thread)
        missing = self._answered - found
        self.outcome.unanswered = len(found - self._answered)
        self.outcome.faults += [f"{self._writes[token]} was acknowledged and is not there" for token in sorted(missing)]

    async def _look(self, http: httpx2.AsyncClient, thread: str) -> set[str]:
        """The tokens of writes that are in a thread."""
        faults, found = self.outcome.faults, set[str]()
        sizes = await self._sizes(http, thread)
        logged = Counter[str]()
        if "log" in sizes:
            logged.update((await self._read(http, thread, "log")).decode().split())
        faults += [f"{token} ran {count} times" for token, count in logged.items() if count > 1]
        for write in (one for one in self._writes.values() if one.thread == thread):
            there = [name in sizes for name in write.files]
            if not any(there) and not logged[write.token]:
                continue
            if not all(there) or (not write.is_upload and not logged[write.token]):
                faults.append(f"{write} is there in part: {there}, {logged[write.token]} lines")
                continue
            found.add(write.token)
            for name in write.files:
                self.outcome.files += 1
                if await self._read(http, thread, name) != content_of(name, write.size):
                    faults.append(f"{name} of {thread} is not what was written")
        return found

    async def _sizes(self, http: httpx2.AsyncClient, thread: str) -> dict[str, int]:
        sizes, cursor = dict[str, int](), None
        while True:
            asked: dict[str, Any] = {"source": "thread", "id": thread} | ({"cursor": cursor} if cursor else {})
            answer = await http.post("/v1/files/list", json=asked)
            if answer.status_code == 404:  # nothing was ever committed
                return {}
            page = answer.raise_for_status().json()
            sizes |= {one["path"]: one["size"] for one in page["files"]}
            if not (cursor := page.get("next_cursor")):
                return sizes

    async def _read(self, http: httpx2.AsyncClient, thread: str, name: str) -> bytes:
        asked = {"source": "thread", "id": thread, "path": name}
        answer = await http.post("/v1/files/download_url", json=asked)
        if answer.is_success:
            answer = await http.get(answer.json()["url"])
        if not answer.is_success:
            self.outcome.faults.append(f"{name} of {thread} cannot be read: {answer.status_code} {answer.text[:200]}")
            return b""
        return answer.content


def main() -> int:
    from bench.world import open_world, prepare_environment  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="python -m bench.thread_kills", description="kill -9 of the service.")
    parser.add_argument("--database-url", default="", metavar="URL", help="Of an empty PostgreSQL database.")
    parser.add_argument("--files-url", default="", metavar="URL", help="Of an empty bucket; AWS_... are credentials.")
    parser.add_argument("--kills", type=int, default=100, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    options = parser.parse_args()
    if bool(options.database_url) != bool(options.files_url):
        parser.error("--database-url and --files-url go together; without both: SQLite and a folder")
    environ = {
        "MOONPOOL_DATABASE_URL": options.database_url,
        "MOONPOOL_FILES_URL": options.files_url,
        "MOONPOOL_SECRETS_KEY": os.environ.get("MOONPOOL_SECRETS_KEY")
        or b64encode(token_bytes(32)).decode(),  # replicas need the same
    }

    async def killed() -> ThreadKillOutcome:
        await prepare_environment("base")
        async with open_world(("base",), peers=False) as world:
            data = world.settings("base").data_dir
            assert data is not None
            with kill_folder() as folder:
                killing = ThreadKilling(environ if options.files_url else {}, data, folder, seed=options.seed)
                return await killing.run(options.kills)

    outcome = asyncio.run(killed())
    print("\n".join([outcome.summary(), *outcome.faults[:20]]))
    return int(bool(outcome.faults))


if __name__ == "__main__":
    sys.exit(main())
