"""The file of plans: what may become of one, and that no run of harmless dry runs locks everybody out."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from moonpool.features.plans import table
from moonpool.features.plans.model import Effect, EffectKind, Plan, PlanError, PlanState, PlanStoreError
from moonpool.features.plans.table import PLANS_MAX, PlanStore

if TYPE_CHECKING:
    from pathlib import Path

CREATE = Effect(
    number=1, kind=EffectKind.CALL, server_id="hub", tool_name="create", tool_digest="", arguments="{}",
    arguments_digest="sha256:0", verdict="ask", rule_id="", reason="", of_the_moment=False, destructive=False,
    placeholder="text",
)  # fmt: skip


def plan(number: int, *effects: Effect, problem: str = "") -> Plan:
    return Plan(
        plan_id=f"plan_{number:032x}", run_id="run_1", principal="local:a", session_id="", language="python",
        code_digest="sha256:1", manifest_digest="", policy_digest="", effects=effects, made_at=float(number),
        expires_at=10_000.0, problem=problem,
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> PlanStore:
    return PlanStore(tmp_path / "private" / "plans.sqlite3", clock=lambda: 1_000.0)


def test_an_approval_is_taken_back_until_the_plan_is_used(store: PlanStore) -> None:
    for number in (1, 2):
        store.put(plan(number, CREATE))
        store.answer(plan(number, CREATE), approved=True, approver="a", by_person=True)
    store.answer(plan(1, CREATE), approved=False, approver="b", by_person=True)
    store.take(plan(2, CREATE))
    with pytest.raises(PlanError, match="it is denied"):
        store.take(plan(1, CREATE))
    with pytest.raises(PlanError, match="it is used"):
        store.answer(plan(2, CREATE), approved=False, approver="b", by_person=True)
    assert [one.state for one in store.plans()] == [PlanState.DENIED, PlanState.USED]


def test_what_was_denied_is_not_approved_afterwards(store: PlanStore) -> None:
    store.put(plan(1, CREATE))
    store.answer(plan(1, CREATE), approved=False, approver="a", by_person=True)
    with pytest.raises(PlanError, match="it is denied"):
        store.answer(plan(1, CREATE), approved=True, approver="a", by_person=True)


def test_plans_that_name_no_server_are_forgotten(store: PlanStore) -> None:
    store.put(plan(1, CREATE))
    connection = sqlite3.connect(store.path)
    connection.execute("PRAGMA user_version=1")
    connection.close()
    assert store.plans() == []
    store.put(plan(2, CREATE))
    assert [one.plan.plan_id for one in store.plans()] == [plan(2).plan_id]


@pytest.mark.parametrize("idle", [plan(0), plan(0, CREATE, problem="the rehearsal failed")], ids=["reads", "failed"])
def test_plans_that_nobody_has_to_answer_make_room(store: PlanStore, idle: Plan) -> None:
    store.put(plan(1, CREATE))
    for number in range(2, PLANS_MAX + 2):
        store.put(replace(idle, plan_id=f"plan_{number:032x}", made_at=float(number)))
    kept = [one.plan.plan_id for one in store.plans()]
    assert kept[0] == plan(1).plan_id  # somebody may be reading it
    assert kept[-1] == plan(PLANS_MAX + 1).plan_id
    assert len(kept) < PLANS_MAX


def test_above_the_limit_a_plan_that_is_to_be_answered_is_refused(store: PlanStore) -> None:
    for number in range(PLANS_MAX):
        store.put(plan(number, CREATE))
    with pytest.raises(PlanStoreError, match="plans deny"):
        store.put(plan(PLANS_MAX, CREATE))
    store.answer(plan(0, CREATE), approved=False, approver="a", by_person=True)
    store.put(plan(PLANS_MAX, CREATE))


def of(principal: str, number: int, **changes: object) -> Plan:
    return replace(plan(number, CREATE), principal=principal, **changes)


def test_one_principal_leaves_room_for_the_plans_of_others(store: PlanStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "PLANS_MAX", 6)  # of one, so 8 of all
    for number in range(6):
        store.put(of("a", number))
    with pytest.raises(PlanStoreError, match="too many plans of yours wait"):
        store.put(of("a", 6))
    store.put(of("b", 7))
    store.put(of("c", 8))
    with pytest.raises(PlanStoreError, match="too many plans of all callers wait"):
        store.put(of("b", 9))


def test_plans_are_bounded_by_bytes_and_those_that_are_over_by_number(
    store: PlanStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "OVER_MAX", 2)
    for number in range(5):
        store.put(of("a", number))
        store.answer(of("a", number), approved=False, approver="x", by_person=True)
    store.put(of("a", 5))
    assert [one.plan.plan_id for one in store.plans()] == [plan(number).plan_id for number in (3, 4, 5)]
    monkeypatch.setattr(table, "OPEN_BYTES_MAX", 100)
    with pytest.raises(PlanStoreError, match="too many plans of yours wait"):
        store.put(of("a", 6))
    full = PlanStore(tmp_path / "full.sqlite3", take=lambda _: "the disk is full")
    with pytest.raises(PlanStoreError, match="the disk is full; try again later"):
        full.put(of("a", 7))
    assert full.plans() == []


def test_plans_of_an_older_file_belong_to_their_principals(store: PlanStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "PLANS_MAX", 1)
    store.put(of("a", 1))
    connection = sqlite3.connect(store.path)
    connection.execute("ALTER TABLE plan DROP COLUMN principal")
    connection.execute("PRAGMA user_version=3")
    connection.close()
    with pytest.raises(PlanStoreError, match="of yours"):
        store.put(of("a", 2))
    assert [one.plan for one in store.plans()] == [of("a", 1)]


def test_a_damaged_file_says_what_to_do(store: PlanStore) -> None:
    store.path.parent.mkdir(mode=0o700, exist_ok=True)
    store.path.write_bytes(b"no database at all, but long enough to be read as a header" * 20)
    with pytest.raises(PlanStoreError, match="is damaged; remove it"):
        store.plans()
