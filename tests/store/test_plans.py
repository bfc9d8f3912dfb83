"""Plans, in a file and in PostgreSQL: what becomes of one, and that harmless dry runs lock nobody out."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import pytest

from moonpool.core.audit import JournalError, JournalUncertainError
from moonpool.core.audit_records import PlanRecord
from moonpool.features.plans import table
from moonpool.features.plans.database_table import PlanRows
from moonpool.features.plans.model import Effect, EffectKind, Plan, PlanError, PlanState, PlanStoreError
from moonpool.features.plans.table import PlanStore
from moonpool.store.database import outbox
from moonpool.store.outbox import Delivery
from tenant_databases import OpenedDatabase, organisation, tenant_database

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["organisation", "tenant_database"]
MAX = 12
AnyStore: TypeAlias = PlanStore | PlanRows
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
def file_store(tmp_path: Path) -> PlanStore:
    return PlanStore(tmp_path / "private" / "plans.sqlite3", clock=lambda: 1_000.0)


@pytest.fixture(params=["file", "postgresql"])
def store(request: pytest.FixtureRequest) -> AnyStore:
    if request.param == "file":
        return request.getfixturevalue("file_store")
    opened: OpenedDatabase = request.getfixturevalue("tenant_database")
    return PlanRows(opened.database, opened.loop, request.getfixturevalue("organisation"), clock=lambda: 1_000.0)


def test_an_approval_is_taken_back_until_the_plan_is_used(store: AnyStore) -> None:
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


def test_what_was_denied_is_not_approved_afterwards(store: AnyStore) -> None:
    store.put(plan(1, CREATE))
    store.answer(plan(1, CREATE), approved=False, approver="a", by_person=True)
    with pytest.raises(PlanError, match="it is denied"):
        store.answer(plan(1, CREATE), approved=True, approver="a", by_person=True)


def test_plans_that_name_no_server_are_forgotten(file_store: PlanStore) -> None:
    file_store.put(plan(1, CREATE))
    connection = sqlite3.connect(file_store.path)
    connection.execute("PRAGMA user_version=1")
    connection.close()
    assert file_store.plans() == []
    file_store.put(plan(2, CREATE))
    assert [one.plan.plan_id for one in file_store.plans()] == [plan(2).plan_id]


@pytest.mark.parametrize("idle", [plan(0), plan(0, CREATE, problem="the rehearsal failed")], ids=["reads", "failed"])
def test_plans_that_nobody_has_to_answer_make_room(
    store: AnyStore, monkeypatch: pytest.MonkeyPatch, idle: Plan
) -> None:
    monkeypatch.setattr(table, "PLANS_MAX", MAX)
    store.put(plan(1, CREATE))
    for number in range(2, MAX + 2):
        store.put(replace(idle, plan_id=f"plan_{number:032x}", made_at=float(number)))
    kept = [one.plan.plan_id for one in store.plans()]
    assert kept[0] == plan(1).plan_id  # somebody may be reading it
    assert kept[-1] == plan(MAX + 1).plan_id
    assert len(kept) < MAX


def test_above_the_limit_a_plan_that_is_to_be_answered_is_refused(
    store: AnyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "PLANS_MAX", MAX)
    for number in range(MAX):
        store.put(plan(number, CREATE))
    with pytest.raises(PlanStoreError, match="plans deny"):
        store.put(plan(MAX, CREATE))
    store.answer(plan(0, CREATE), approved=False, approver="a", by_person=True)
    store.put(plan(MAX, CREATE))


def of(principal: str, number: int, **changes: object) -> Plan:
    return replace(plan(number, CREATE), principal=principal, **changes)


def test_one_principal_leaves_room_for_the_plans_of_others(store: AnyStore, monkeypatch: pytest.MonkeyPatch) -> None:
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
    store: AnyStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


def test_plans_of_an_older_file_belong_to_their_principals(
    file_store: PlanStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "PLANS_MAX", 1)
    file_store.put(of("a", 1))
    connection = sqlite3.connect(file_store.path)
    connection.execute("ALTER TABLE plan DROP COLUMN principal")
    connection.execute("PRAGMA user_version=3")
    connection.close()
    with pytest.raises(PlanStoreError, match="of yours"):
        file_store.put(of("a", 2))
    assert [one.plan for one in file_store.plans()] == [of("a", 1)]


def test_a_damaged_file_says_what_to_do(file_store: PlanStore) -> None:
    file_store.path.parent.mkdir(mode=0o700, exist_ok=True)
    file_store.path.write_bytes(b"no database at all, but long enough to be read as a header" * 20)
    with pytest.raises(PlanStoreError, match="is damaged; remove it"):
        file_store.plans()


def test_a_plan_is_used_once_however_many_try(store: AnyStore) -> None:
    store.put(plan(1, CREATE))
    store.answer(plan(1, CREATE), approved=True, approver="a", by_person=True)

    def take(_: int) -> bool:
        try:
            store.take(plan(1, CREATE))
        except PlanError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(take, range(8))) == 1


def test_an_organisation_has_its_own_plans(tenant_database: OpenedDatabase) -> None:
    one, other = (PlanRows(tenant_database.database, tenant_database.loop, name, clock=lambda: 1.0) for name in "ab")
    one.put(plan(1, CREATE))
    assert (other.plans(), other.find(plan(1).plan_id)) == ([], None)
    with pytest.raises(PlanError, match="it is no longer there"):
        other.answer(plan(1, CREATE), approved=True, approver="b", by_person=True)
    assert [stored.state for stored in one.plans()] == [PlanState.WAITING]


def test_what_a_replica_left_in_the_outbox_is_delivered_once_by_another(
    tenant_database: OpenedDatabase, organisation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PlanRows(tenant_database.database, tenant_database.loop, organisation, clock=lambda: 1_000.0)
    record = PlanRecord(
        run_id=plan(1).plan_id, at="", what="made", principal="local:a", approver="", plan_digest=plan(1).digest,
        code_digest="sha256:1", calls=1, rehearsal="run_1",
    )  # fmt: skip
    written: list[object] = []

    def dies(_: object) -> None:
        raise JournalUncertainError("the replica ended meanwhile")

    def fails(_: object) -> None:
        raise JournalError("the disk is full")

    with pytest.raises(JournalUncertainError):
        store.put(plan(1, CREATE), Delivery(record, dies))
    assert store.plans() == []  # not in force before it is on record
    store.deliver_left(written.append)
    assert written == []  # whoever put it may be alive
    monkeypatch.setattr(outbox, "DELIVERED_WITHIN_S", 0.0)
    store.deliver_left(fails)
    assert store.plans() == []
    for _ in range(2):
        store.deliver_left(written.append)
    assert written == [record]
    assert [one.state for one in store.plans()] == [PlanState.WAITING]
