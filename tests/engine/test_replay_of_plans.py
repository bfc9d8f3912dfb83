"""Dry runs and runs under a plan, replayed: the answers of then, placeholders included; no plan is made or used."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import pytest

from apps import DATA
from engine.test_plan_first import open_hub
from moonpool.bootstrap.replays import replay_run
from moonpool.features.plans.table import PlanStore
from moonpool.features.receipts.model import problem_inside
from moonpool.features.receipts.service import make_receipt
from moonpool.features.receipts.signing_keys import SigningKeys
from moonpool.replay.report import ReplayEnd
from moonpool.replay.service import ReplayRequest
from moonpool.settings import Settings
from moonpool.store.journal_reading import FileJournalReader, read_rows
from moonpool.store.paths import journal_path, keys_dir, plans_path

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.replay.report import ReplayReport

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-065")]
EXCEEDING = """
import servers.hub as hub
made = await hub.create(title="t")
await hub.comment(title="t" if made.data["tool"] != "create" else "other")
import asyncio
await asyncio.sleep(30 if made.data["tool"] == "create" else 0)
print("went on")
"""


async def replay(run_id: str) -> ReplayReport:
    return await replay_run(Settings.load({}, data_dir=DATA), ReplayRequest(run_id=run_id), environ=os.environ)


async def records(run_id: str) -> list[dict[str, Any]]:
    rows = await anyio.to_thread.run_sync(lambda: list(read_rows(journal_path(DATA), run_id=run_id)))
    return [row.to_json() for row in rows]


async def test_a_dry_run_is_replayed_with_its_placeholders_and_makes_no_plan(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as hub:
        rehearsal = await hub.run(dry_run=True)
    arrived = hub.arrived
    again = await replay(rehearsal.run_id)
    now = hub.arrived
    plan: Any = rehearsal.extras["plan"]
    assert (again.same, again.calls_served, now) == (True, 3, arrived), json.dumps(again.to_json(), indent=1)
    assert any("a dry run" in note and plan["plan_id"] in note for note in again.notes)
    assert "plan" not in again.envelope["result"]
    assert "plan_id" not in str(again.envelope)
    ends = [one for one in await records(again.replay_run_id) if one["kind"] == "execution_end"]
    assert len(ends) == 1


async def test_a_run_under_a_plan_is_replayed_without_it(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as hub:
        plan_id = await hub.approved()
        real = await hub.run(plan=plan_id)
    before, arrived = await anyio.to_thread.run_sync(_state_of, plan_id), hub.arrived
    again = await replay(real.run_id)
    after, now = await anyio.to_thread.run_sync(_state_of, plan_id), hub.arrived
    assert again.same, again.to_json()
    assert (before, now) == (after, arrived)


async def test_a_run_that_its_plan_ended_is_replayed_to_that_place(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as hub:
        real = await hub.run(EXCEEDING, plan=await hub.approved(EXCEEDING))
    again = await replay(real.run_id)
    assert real.error is not None
    assert real.error.type == "PlanExceeded"
    assert (again.end, again.divergence, again.calls_served) == (ReplayEnd.RECORD_ENDED, None, 2)
    assert any("ended early (plan)" in note for note in again.notes)
    assert "went on" not in str(again.envelope)


async def test_dry_runs_and_replays_have_receipts_that_hold(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as hub:
        rehearsal = await hub.run(dry_run=True)
    again = await replay(rehearsal.run_id)

    def receipts() -> list[Any]:
        keys = SigningKeys(keys_dir(DATA))
        return [
            make_receipt(FileJournalReader(journal_path(DATA)), keys, one)
            for one in (rehearsal.run_id, again.replay_run_id)
        ]

    dry, replayed = await anyio.to_thread.run_sync(receipts)
    assert [problem_inside(one) for one in (dry, replayed)] == ["", ""]
    assert (dry["state"], replayed["state"]) == ("ended", "ended")
    assert replayed["execution"]["replay_of"] == rehearsal.run_id


def _state_of(plan_id: str) -> str:
    return str(PlanStore(plans_path(DATA)).find(plan_id).state)
