"""`python -m bench.kills [--kills N] [--seed N]`: kill -9 of a busy host at random instants, then look at its journal.

Each round starts a host in a process of its own, which runs executions side by side whose calls change something at a
server that notes what it sees, and kills it: while it starts, between executions, in the middle of calls. Afterwards
the chain must be whole and contain the head of the round before, every call that the server saw must have a durable
intent, and every execution without an end must show as lost. The next round goes on with the same journal.
Ends with 1 when anything of that is not so. A short form is in the tests (`tests/store/test_journal_kills.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moonpool.bootstrap import open_default_tenant
from moonpool.configuration.servers import parse_config
from moonpool.core.json import digest_json
from moonpool.engine.code_request import CodeRequest
from moonpool.features.receipts.service import execution_states
from moonpool.pipeline.approval import AutoApprover
from moonpool.settings import Settings
from moonpool.store.journal_reading import FileJournalReader, read_rows, verify_file
from moonpool.store.paths import journal_path

ROOT = Path(__file__).parents[1]
RECORDER = ROOT / "tests" / "fixtures" / "servers" / "recorder.py"
KILLS = 200
CONCURRENCY = 3
_CALLS = 8
_START_S_MAX = 60.0
_CODE = """
import asyncio
from servers.recorder import put
await asyncio.gather(*(put(token=f"{token}-{{number}}") for number in range({calls})))
"""


@dataclass(slots=True)
class KillOutcome:
    """What all rounds together found."""

    kills: int = 0
    kills_while_starting: int = 0
    rows: int = 0
    calls_seen: int = 0
    intents: int = 0
    states: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])

    def summary(self) -> str:
        states = ", ".join(f"{count} {state}" for state, count in sorted(self.states.items()))
        return (
            f"{self.kills} kills ({self.kills_while_starting} while starting): {self.rows:,} records, chain "
            f"{'broken' if self.faults else 'whole'}; {self.calls_seen:,} calls seen by the server, "
            f"{self.intents:,} intents; executions: {states}"
        )


class Killing:
    """Rounds over one data folder."""

    def __init__(self, data: Path, folder: Path, *, seed: int) -> None:
        self._data, self._folder, self._random = data, folder, random.Random(seed)  # noqa: S311
        self._seen = folder / "seen.jsonl"
        self._head: tuple[int, str] | None = None
        self.outcome = KillOutcome()

    def run(self, kills: int) -> KillOutcome:
        for number in range(self.outcome.kills, self.outcome.kills + kills):
            self._kill_one(number)
            self.look(f"after kill {number + 1}")
        return self.outcome

    def _kill_one(self, number: int) -> None:
        starting = self._random.random() < 0.1
        child = subprocess.Popen(
            [sys.executable, "-m", "bench.kills", "--load", self._data, self._folder, str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            start_new_session=True,
        )
        assert child.stdout is not None
        for _ in range(0 if starting else self._random.randint(1, 12)):  # one line for each execution that ended
            child.stdout.readline()
        try:  # the instant is the point: anywhere in an execution, or in the start
            child.wait(self._random.uniform(0, 0.8 if starting else 0.1))
            self.outcome.faults.append(f"the host of round {number} ended by itself with {child.returncode}")
        except subprocess.TimeoutExpired:
            child.kill()
        child.wait(_START_S_MAX)
        child.stdout.close()
        self.outcome.kills += 1
        self.outcome.kills_while_starting += starting

    def look(self, when: str) -> None:
        """Compare journal and server; what is wrong is added to the faults."""
        path, faults = journal_path(self._data), self.outcome.faults
        if not path.exists():
            return
        chain = verify_file(path, anchor=self._head)
        if not chain.ok:
            faults.append(f"{when}: record {chain.broken_seq}: {chain.why}")
        self._head = (chain.rows, chain.head) if chain.rows else None
        rows = list(read_rows(path))
        intents = {row.to_json()["arguments_digest"] for row in rows if row.kind == "call_intent"}
        seen = self._calls_seen()
        if missing := [call for call in seen if digest_json(call) not in intents]:
            faults.append(f"{when}: {len(missing)} calls were seen without an intent, first {missing[0]}")
        states = Counter(str(state) for state in execution_states(FileJournalReader(path), rows).values())
        if odd := set(states) - {"ended", "lost"}:
            faults.append(f"{when}: executions are {odd}")
        self.outcome.rows, self.outcome.states = len(rows), states
        self.outcome.calls_seen, self.outcome.intents = len(seen), len(intents)

    def _calls_seen(self) -> list[Any]:
        lines = self._seen.read_bytes().splitlines(keepends=True) if self._seen.exists() else []
        return [json.loads(line)["arguments"] for line in lines if line.endswith(b"\n")]


async def load(data: Path, folder: Path, number: str) -> None:
    """Run executions until somebody ends this process."""
    listed = folder / "tools.json"
    tool = {"name": "put", "inputSchema": {"type": "object", "properties": {"token": {"type": "string"}}}}
    listed.write_text(json.dumps([tool]), encoding="utf-8")
    entry = {
        "command": sys.executable,
        "args": [str(RECORDER), str(listed), str(folder / "seen.jsonl")],
        "moonpool": {"allow": ["*"]},
    }
    config = parse_config(json.dumps({"mcpServers": {"recorder": entry}}).encode(), source="kills", environ=os.environ)
    async with open_default_tenant(
        Settings.load({}, data_dir=data), config=config, approver=AutoApprover(), environ=os.environ
    ) as app:

        async def go_on(lane: int) -> None:
            for turn in range(1_000_000):
                code = _CODE.format(token=f"{number}-{lane}-{turn}", calls=_CALLS)
                await app.runtime.run(CodeRequest(code=code.encode()), app.caller_grant)
                print(flush=True)

        await asyncio.gather(*(go_on(lane) for lane in range(CONCURRENCY)))


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["--load"]:
        asyncio.run(load(Path(given[1]), Path(given[2]), given[3]))
        return 0
    from bench.world import open_world, prepare_environment  # noqa: PLC0415  not in the process that is killed

    parser = argparse.ArgumentParser(prog="python -m bench.kills", description="kill -9 at random instants.")
    parser.add_argument("--kills", type=int, default=KILLS, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    options = parser.parse_args(given)

    async def folder_of_world() -> int:
        await prepare_environment("base")
        async with open_world(("base",), peers=False) as world:
            data = world.settings("base").data_dir
            assert data is not None
            with tempfile.TemporaryDirectory(prefix="moonpool-kills-") as folder:
                outcome = await asyncio.to_thread(Killing(data, Path(folder), seed=options.seed).run, options.kills)
        print("\n".join([outcome.summary(), *outcome.faults[:20]]))
        return int(bool(outcome.faults))

    return asyncio.run(folder_of_world())


if __name__ == "__main__":
    sys.exit(main())
