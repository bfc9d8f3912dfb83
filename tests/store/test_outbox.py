"""Grants and plans go on record through an outbox: kill -9 between its steps, a journal that fails, files of before."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from apps import fresh_data
from fixtures import outbox_wrecks as wrecks
from moonpool.bootstrap import open_tenant
from moonpool.core.audit import JournalError, JournalUncertainError
from moonpool.core.calls import ApprovalState
from moonpool.core.json import canonical_json
from moonpool.features.approvals.model import QueueState
from moonpool.features.approvals.table import ApprovalStore
from moonpool.features.plans.model import PlanError, PlanState, PlanStoreError
from moonpool.features.plans.table import PlanStore
from moonpool.pipeline.approval import AutoApprover
from moonpool.store.journal_reading import read_rows, verify_file
from moonpool.store.paths import approvals_path, journal_path, plans_path, tenant_dir
from tenants import open_engine_of_fakes

if TYPE_CHECKING:
    from collections.abc import Mapping

OLD = Path(__file__).parents[1] / "data" / "outbox_before.sql"

QUICK = {"given", "used"}
STATES: Mapping[str, tuple[list[PlanState], list[PlanState]]] = {  # of the plan: before the change, and after it
    "made": ([], [PlanState.WAITING]),
    "approved": ([PlanState.WAITING], [PlanState.APPROVED]),
    "denied": ([PlanState.APPROVED], [PlanState.DENIED]),
    "used": ([PlanState.APPROVED], [PlanState.USED]),
}


def records(data: Path) -> list[str]:
    """What was done, in order."""
    if not journal_path(data).exists():
        return []
    return [json.loads(row.body)["what"] for row in read_rows(journal_path(data))]


def grants(data: Path) -> int:
    """How many grants a call would find; asking delivers nothing."""
    return len(wrecks.store_of(data).grants_for("local:alice", "git", "push"))


def full(_: object) -> None:
    raise JournalError("the disk is full")


@pytest.mark.parametrize("names", [QUICK, pytest.param(wrecks.CHANGES.keys() - QUICK, marks=pytest.mark.slow)])
def test_kill_9_between_steps_leaves_a_record_or_nothing_and_a_state_that_agrees(
    tmp_path: Path, names: set[str]
) -> None:
    subprocess.run([sys.executable, wrecks.__file__, str(tmp_path), *names], check=True)
    for name in names:
        what = name.partition("-")[0]
        for step in wrecks.STEPS:
            data, about = tmp_path / f"{name}-{step}", (name, step)
            if what in {"given", "removed"}:
                # What is given does not count before it is on record and delivered, what is removed no longer.
                counted = step == "done" if what == "given" else step == "in-transaction"
                assert grants(data) == counted, about
                if name == "given":
                    answer = wrecks.store_of(data).take(wrecks.REQUEST.request_id, wrecks.REQUEST.arguments_digest)
                    assert (answer is not None) is (step == "done"), about
            elif step in {"committed", "recorded"}:
                assert PlanStore(plans_path(data)).plans() == [], about
                with pytest.raises(PlanStoreError, match="not on record yet"):
                    PlanStore(plans_path(data)).find(wrecks.PLAN.plan_id)
            wrecks.plans_of(data, full).plans()
            counted = grants(data)
            assert len(wrecks.approvals_of(data, full).grants()) == counted, about  # cannot be delivered: as it was
            for _ in range(2):  # what was delivered is not delivered again
                left = wrecks.approvals_of(data, wrecks.written(data)).grants()
                plans = wrecks.plans_of(data, wrecks.written(data)).plans()
            there = step != "in-transaction"
            assert records(data).count(what) == there, about
            assert verify_file(journal_path(data)).ok if records(data) else not there, about
            if what == "given":
                assert len(left) == there, about
                state = wrecks.store_of(data).requests(waiting_only=False)[:1]
                assert name != "given" or (state[0].state is QueueState.APPROVED) is there, about
            elif what == "removed":
                assert len(left) == (not there), about
            else:
                assert [one.state for one in plans] == STATES[what][there], about


def uncertain(_: object) -> None:
    raise JournalUncertainError("the database went away")


def test_what_may_be_on_record_is_neither_in_force_nor_undone(tmp_path: Path) -> None:
    """It is delivered once this process has ended: see the kills above."""
    (give,) = wrecks.CHANGES["given-elsewhere"]
    with pytest.raises(JournalUncertainError):
        give(tmp_path, uncertain)
    assert grants(tmp_path) == 0
    connection = sqlite3.connect(approvals_path(tmp_path))
    assert connection.execute("SELECT count(*) FROM outbox").fetchone() == (1,)
    connection.close()


def test_what_cannot_be_put_on_record_is_as_it_was(tmp_path: Path) -> None:
    for number, (name, (*before, change)) in enumerate(wrecks.CHANGES.items()):
        data = tmp_path / str(number)
        for one in before:
            one(data, wrecks.written(data))
        was = grants(data), records(data), PlanStore(plans_path(data)).plans(), _requests(data)
        with pytest.raises(JournalError):
            change(data, full)
        assert (grants(data), records(data), PlanStore(plans_path(data)).plans(), _requests(data)) == was, name
        change(data, wrecks.written(data))
        assert records(data)[-1] == name.partition("-")[0]


def test_while_the_journal_is_written_to_the_file_is_open_to_others(tmp_path: Path) -> None:
    """The change is committed and does not count yet; nothing is locked."""
    seen: list[Any] = []

    def look(record: Any) -> None:
        other = wrecks.store_of(tmp_path)
        seen.append((grants(tmp_path), other.take(wrecks.REQUEST.request_id, wrecks.REQUEST.arguments_digest)))
        late = ApprovalStore(approvals_path(tmp_path), is_gone=lambda _: None, clock=lambda: 9.5e9)
        answer = late.take(wrecks.REQUEST.request_id, wrecks.REQUEST.arguments_digest)
        assert answer is not None
        assert answer.state is ApprovalState.REJECTED  # its time is up, and the yes is not on record
        assert wrecks.approvals_of(tmp_path, wrecks.written(tmp_path)).grants() == []
        assert records(tmp_path) == []  # who lives delivers for itself
        wrecks.put(tmp_path, wrecks.replace(wrecks.REQUEST, request_id="c" * 32))
        wrecks.written(tmp_path)(record)

    def look_at_plan(record: Any) -> None:
        with pytest.raises(PlanError, match="its last change is not on record yet"):
            PlanStore(plans_path(tmp_path)).take(store[0].plan)
        wrecks.written(tmp_path)(record)

    wrecks.ask(tmp_path, look)
    wrecks.approve(tmp_path, look)
    assert (seen, grants(tmp_path)) == ([(0, None)], 1)
    wrecks.make(tmp_path, wrecks.written(tmp_path))
    store = PlanStore(plans_path(tmp_path)).plans()
    wrecks.agree(tmp_path, look_at_plan)
    assert records(tmp_path) == ["given", "made", "approved"]


@pytest.mark.anyio
@pytest.mark.slow
async def test_the_start_of_a_tenant_delivers_what_an_ended_process_left(tmp_path: Path) -> None:
    data = fresh_data(tmp_path / "data")
    own = tenant_dir(data, "acme")

    def interrupted(_: object) -> None:
        raise RuntimeError("nobody knows what the journal holds")

    wrecks.ask(own, interrupted)
    with pytest.raises(RuntimeError):
        wrecks.approve(own, interrupted)
    connection = sqlite3.connect(approvals_path(own))
    connection.execute("UPDATE outbox SET owner = 'another-boot/1/1/1'")
    connection.commit()
    connection.close()
    assert grants(own) == 0
    async with open_engine_of_fakes(data) as engine, open_tenant(engine, "acme", config=None, approver=AutoApprover()):
        assert (grants(own), records(own)) == (1, ["given"])


def test_files_of_0_1_0_are_taken_over(tmp_path: Path) -> None:
    """Their grants and plans were on record before they were kept, so they are in force."""
    wrecks.ask(tmp_path, full)
    wrecks.make(tmp_path, lambda _: None)
    plan = PlanStore(plans_path(tmp_path)).plans()[0].plan
    approvals, plans = OLD.read_text(encoding="utf-8").split("-- plans\n")
    for path, script in ((approvals_path(tmp_path), approvals), (plans_path(tmp_path), plans)):
        for one in path.parent.glob(f"{path.name}*"):
            one.unlink()
        connection = sqlite3.connect(path)
        connection.executescript(script)
        if script is plans:
            row = (plan.plan_id, canonical_json(plan.to_json()), plan.digest, plan.made_at, plan.expires_at)
            connection.execute("INSERT INTO plan VALUES (?, ?, ?, ?, ?, 'waiting', '', 0)", row)
        connection.commit()
        connection.close()
    assert grants(tmp_path) == 1
    wrecks.approve(tmp_path, wrecks.written(tmp_path))
    wrecks.agree(tmp_path, wrecks.written(tmp_path))
    wrecks.use(tmp_path, wrecks.written(tmp_path))
    assert (grants(tmp_path), records(tmp_path)) == (2, ["given", "approved", "used"])


def _requests(data: Path) -> list[Any]:
    return wrecks.store_of(data).requests(waiting_only=False)
