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
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import httpx2

from bench.kills import RECORDER
from bench.replicas import LEASE_S, SETTLED_S_MAX, Killing, Replica, kill_folder, state_of
from moonpool.core.json import digest_json
from moonpool.features.receipts.service import execution_states
from moonpool.settings import Settings
from moonpool.store.journals import journal_reader

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.core.audit import AuditRow

KILLS: Final = 100
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


class ServiceKilling(Killing):
    """On one empty PostgreSQL database; without `url`, on a data folder. `data` has the environments."""

    def __init__(self, url: str, data: Path, folder: Path, *, seed: int) -> None:
        self._seen = folder / "seen.jsonl"
        self._reader = journal_reader(Settings.load({}, database_url=url), state_of(folder, 0))
        tool = {"name": "put", "inputSchema": {"type": "object", "properties": {"token": {"type": "string"}}}}
        (folder / "tools.json").write_text(json.dumps([tool]), encoding="utf-8")
        entry = {
            "command": sys.executable,
            "args": [str(RECORDER), str(folder / "tools.json"), str(self._seen)],
            "moonpool": {"allow": ["*"]},
        }
        (folder / "servers.json").write_text(json.dumps({"mcpServers": {"recorder": entry}}), encoding="utf-8")
        options = ("--config", str(folder / "servers.json"))
        environ = {"MOONPOOL_DATABASE_URL": url, **({"MOONPOOL_REPLICA_LEASE_S": str(LEASE_S)} if url else {})}
        replicas = [Replica(number, data, folder, options, environ) for number in range(2 if url else 1)]
        super().__init__(replicas, seed=seed)
        self._is_lost_on_record = bool(url)
        """Other replicas record it. Without any, whoever reads the journal sees that the process is gone."""
        self.outcome = ServiceKillOutcome()

    async def run(self, kills: int) -> ServiceKillOutcome:
        await self.kill(kills)
        self.outcome.kills = self.kills
        await asyncio.to_thread(self._look)
        return self.outcome

    async def ask(self, lane: int) -> None:
        async with httpx2.AsyncClient(timeout=60) as http:
            for turn in range(1_000_000):
                token = f"{lane}-{turn}"
                if not (base := self.serving()):
                    await asyncio.sleep(0.05)
                    continue
                call = {"name": "execute_code", "arguments": {"code": _CODE.format(token=token, calls=_CALLS)}}
                message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
                try:
                    answer = (await http.post(f"{base}/mcp", json=message)).json()
                    told = json.loads(answer["result"]["content"][0]["text"])
                except (httpx2.HTTPError, ValueError, KeyError):  # it was killed, or starts, or has not the tools yet
                    await asyncio.sleep(0.02)
                    continue
                if told.get("data") == token:
                    self._answered.add(token)

    async def settled(self) -> None:
        """Wait until every execution has an end or is recorded as lost."""
        end = time.monotonic() + SETTLED_S_MAX
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
            with kill_folder() as folder:
                killing = ServiceKilling(options.database_url, data, folder, seed=options.seed)
                return await killing.run(options.kills)

    outcome = asyncio.run(killed())
    print("\n".join([outcome.summary(), *outcome.faults[:20]]))
    return int(bool(outcome.faults))


if __name__ == "__main__":
    sys.exit(main())
