"""`python -m bench.service_kills [--database-url URL] [--kills N] [--seed N]`: kill -9 of the service under load.

With a URL two `moonpool serve` are on one empty PostgreSQL database, without one a single one has a data folder, with
SQLite. Clients have them execute code, each of whose calls changes something at a server that notes what it sees. Now
and then one is killed, wherever it is, also while it starts, and started again. In the end the chain must be whole;
every call that the server saw must have an intent; every execution that a client had an answer of must have its end on
record, with what came of its call; an execution without an end must be lost, on PostgreSQL by one record; none may
be both. Ends with 1 when anything of that is not so. Short forms are in the tests (`tests/server/test_replicas.py`,
`tests/server/test_service_kills.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx2

from bench.kills import RECORDER
from moonpool.core.json import digest_json
from moonpool.features.receipts.service import execution_states
from moonpool.settings import Settings
from moonpool.store.journals import journal_reader

if TYPE_CHECKING:
    from collections.abc import Generator

    from moonpool.core.audit import AuditRow

KILLS: Final = 100
CLIENTS: Final = 4
LEASE_S: Final = 4.0
_PAUSE_S: Final = 1.0
_WHILE_STARTING: Final = 0.2
"""How often a replica is killed wherever it is; else once it serves."""
_SETTLED_S_MAX: Final = 120.0
_CALLS: Final = 6
_CODE: Final = """
from servers.recorder import put
for number in range({calls}):
    await put(token=f"{token}-{{number}}")
result = {token!r}
"""


@dataclass(slots=True)
class ServiceKillOutcome:
    """What was found."""

    kills: int = 0
    answers: int = 0
    calls_seen: int = 0
    unknown: int = 0  # intents without an outcome
    states: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])

    def summary(self) -> str:
        states = ", ".join(f"{count} {state}" for state, count in sorted(self.states.items()))
        return (
            f"{self.kills} kills: {self.answers:,} answers, {self.calls_seen:,} calls seen by the server, "
            f"{self.unknown} intents without an outcome; executions: {states}; {len(self.faults)} faults"
        )


class _Replica:
    """A process of `moonpool serve` that is started again whenever it has ended."""

    def __init__(self, number: int, data: Path, folder: Path, url: str) -> None:
        self._log, self.base = folder / f"replica-{number}.log", ""
        self._command = [
            *(sys.executable, "-c", "from moonpool.cli.main import main; main()", "serve", "--no-auth", "--port", "0"),
            *("--config", str(folder / "servers.json"), "--data-dir", str(state_of(folder, number))),
        ]
        self._environ = {**os.environ, "MOONPOOL_DATABASE_URL": url, "MOONPOOL_DATA_DIR": str(data)}
        if url:
            self._environ["MOONPOOL_REPLICA_LEASE_S"] = str(LEASE_S)
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


async def _serves(replica: _Replica) -> None:
    end = time.monotonic() + _SETTLED_S_MAX
    while not replica.look():
        assert replica.process.poll() is None, replica.said()
        assert time.monotonic() < end, "a replica does not start"
        await asyncio.sleep(0.05)


class ServiceKilling:
    """On one empty PostgreSQL database; without `url`, on a data folder. `data` has the environments."""

    def __init__(self, url: str, data: Path, folder: Path, *, seed: int) -> None:
        self._random, self._folder, self._seen = random.Random(seed), folder, folder / "seen.jsonl"  # noqa: S311
        self._reader = journal_reader(Settings.load({}, database_url=url), state_of(folder, 0))
        tool = {"name": "put", "inputSchema": {"type": "object", "properties": {"token": {"type": "string"}}}}
        (folder / "tools.json").write_text(json.dumps([tool]), encoding="utf-8")
        entry = {
            "command": sys.executable,
            "args": [str(RECORDER), str(folder / "tools.json"), str(self._seen)],
            "moonpool": {"allow": ["*"]},
        }
        (folder / "servers.json").write_text(json.dumps({"mcpServers": {"recorder": entry}}), encoding="utf-8")
        self._replicas = [_Replica(number, data, folder, url) for number in range(2 if url else 1)]
        self._answered: set[str] = set()
        self._is_lost_on_record = bool(url)
        """Other replicas record it. Without any, whoever reads the journal sees that the process is gone."""
        self.outcome = ServiceKillOutcome()

    async def run(self, kills: int) -> ServiceKillOutcome:
        try:
            clients = [asyncio.create_task(self._ask(lane)) for lane in range(CLIENTS)]
            await self._all_serve()
            for _ in range(kills):
                if len(self._replicas) == 1 and self._random.random() >= _WHILE_STARTING:
                    await self._one_more_answer()  # nobody else gives any
                replica = await self._victim()
                await asyncio.sleep(self._random.uniform(0, _PAUSE_S))
                await asyncio.to_thread(replica.kill)
                self.outcome.kills += 1
            await self._all_serve()
            for client in clients:
                client.cancel()
            await asyncio.gather(*clients, return_exceptions=True)
            await self._settled()
        finally:
            await asyncio.gather(*(asyncio.to_thread(replica.end) for replica in self._replicas))
        await asyncio.to_thread(self._look)
        return self.outcome

    async def _victim(self) -> _Replica:
        """One that serves, or sometimes any."""
        if self._random.random() < _WHILE_STARTING:
            return self._random.choice(self._replicas)
        while not (serving := [replica for replica in self._replicas if replica.look()]):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return self._random.choice(serving)

    async def _one_more_answer(self) -> None:
        had, end = len(self._answered), time.monotonic() + _SETTLED_S_MAX
        while len(self._answered) == had:
            assert time.monotonic() < end, f"nothing is answered: {self._replicas[0].said()}"
            await asyncio.sleep(0.02)

    async def _all_serve(self) -> None:
        for replica in self._replicas:
            await _serves(replica)

    async def _ask(self, lane: int) -> None:
        """Have code executed by whichever replica serves, until cancelled."""
        async with httpx2.AsyncClient(timeout=60) as http:
            for turn in range(1_000_000):
                token = f"{lane}-{turn}"
                serving = [base for replica in self._replicas if (base := replica.look())]
                if not serving:
                    await asyncio.sleep(0.05)
                    continue
                call = {"name": "execute_code", "arguments": {"code": _CODE.format(token=token, calls=_CALLS)}}
                message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
                try:
                    answer = (await http.post(f"{self._random.choice(serving)}/mcp", json=message)).json()
                    told = json.loads(answer["result"]["content"][0]["text"])
                except (httpx2.HTTPError, ValueError, KeyError):  # it was killed, or starts, or has not the tools yet
                    await asyncio.sleep(0.02)
                    continue
                if told.get("data") == token:
                    self._answered.add(token)

    async def _settled(self) -> None:
        """Wait until every execution has an end or is recorded as lost."""
        end = time.monotonic() + _SETTLED_S_MAX
        while set(await asyncio.to_thread(self._states)) - {"ended", "lost"}:
            if time.monotonic() > end:
                return
            await asyncio.sleep(0.2)

    def _states(self) -> Counter[str]:
        return Counter(str(state) for state in execution_states(self._reader, self._reader.rows()).values())

    def _look(self) -> None:
        """Compare what clients and the server have seen with the journal."""
        faults, chain = self.outcome.faults, self._reader.verify()
        if not chain.ok:
            faults.append(f"record {chain.broken_seq}: {chain.why}")
        kinds: dict[str, Counter[str]] = defaultdict(Counter)
        run_of: dict[str, str] = {}
        rows = list(self._reader.rows())
        for row in rows:
            kinds[row.run_id][row.kind] += 1
            if row.kind == "call_intent":
                run_of[_digest(row)] = row.run_id
        lines = self._seen.read_bytes().splitlines() if self._seen.exists() else []
        seen = [json.loads(line)["arguments"] for line in lines]
        faults += [f"{call} was seen without an intent" for call in seen if digest_json(call) not in run_of]
        for token in sorted(self._answered):
            runs = {run_of.get(digest_json({"token": f"{token}-{number}"}), "") for number in range(_CALLS)}
            found = kinds[runs.pop()]
            if runs or found["execution_end"] != 1 or found["call_outcome"] != _CALLS or found["execution_lost"]:
                faults.append(f"{token} was answered, but on record are {dict(found)}")
        states = execution_states(self._reader, rows)
        for run_id, found in kinds.items():
            lost = found["execution_lost"] if self._is_lost_on_record else int(str(states.get(run_id)) == "lost")
            if found["execution_start"] and found["execution_end"] + lost != 1:
                faults.append(f"{run_id} has {dict(found)}")
        self.outcome.states = Counter(str(state) for state in states.values())
        self.outcome.answers, self.outcome.calls_seen = len(self._answered), len(seen)
        self.outcome.unknown = sum(found["call_intent"] - found["call_outcome"] for found in kinds.values())


def _digest(row: AuditRow) -> str:
    return str(row.to_json()["arguments_digest"])


@contextmanager
def _folder() -> Generator[Path]:
    """One that sandbox uids may pass through."""
    with tempfile.TemporaryDirectory(prefix="moonpool-kills-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def main() -> int:
    from bench.world import open_world, prepare_environment  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="python -m bench.service_kills", description="kill -9 of the service.")
    parser.add_argument(
        "--database-url", default="", metavar="URL", help="Of an empty PostgreSQL database; without it: SQLite."
    )
    parser.add_argument("--kills", type=int, default=KILLS, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    options = parser.parse_args()

    async def killed() -> ServiceKillOutcome:
        await prepare_environment("base")
        async with open_world(("base",), peers=False) as world:
            data = world.settings("base").data_dir
            assert data is not None
            with _folder() as folder:
                killing = ServiceKilling(options.database_url, data, folder, seed=options.seed)
                return await killing.run(options.kills)

    outcome = asyncio.run(killed())
    print("\n".join([outcome.summary(), *outcome.faults[:20]]))
    return int(bool(outcome.faults))


if __name__ == "__main__":
    sys.exit(main())
