"""Calls that wait in a queue, and answers that stand for a while, in the pipeline."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from call_contexts import changed
from moonpool.core.calls import ApprovalState, ToolCallSpec
from moonpool.features.approvals.model import Answerer, ApprovalQueueError, QueueState
from moonpool.features.approvals.queue_approver import GrantedApprovals, QueueApprover
from moonpool.features.approvals.service import Approvals, grant_terms
from moonpool.features.approvals.table import ApprovalStore
from moonpool.pipeline.approval import ApprovalBounds, AutoApprover, DenyApprover, LiveApprovals, ScriptedApprover
from moonpool.pipeline.execution_grant import CallLimits
from moonpool.policy import Budget, Layer, LayerName, Measure, Policy, Rule, Scope, Verdict
from pipeline.test_pipeline import ALLOW_ALL, WRITE, Bench, type_of
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from moonpool.core.audit_records import ApprovalGrantRecord
    from moonpool.features.approvals.model import ApprovalRequest, QueuedRequest

pytestmark = pytest.mark.anyio
RECORDS: list[ApprovalGrantRecord] = []
PERSON = Answerer(name="terminal:alice", person=True)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ApprovalStore]:
    made = ApprovalStore(tmp_path / "private" / "approvals.sqlite3", is_gone=lambda _: False)
    yield made
    made.close()


@pytest.fixture
async def approver(store: ApprovalStore) -> AsyncIterator[QueueApprover]:
    async with QueueApprover(store, owner="me", report=lambda _: None) as made:
        yield made


def layer(verdict: Verdict) -> Policy:
    rules = (Rule(rule_id="r", verdict=verdict),)
    return Policy(layers=(Layer(name=LayerName.ORGANISATION, rules=rules),))


def bench_with(approver: Any, store: ApprovalStore, policy: Policy | None = None, **desk: Any) -> Bench:
    bench = Bench(policy=policy or Policy())
    bench.session = changed(bench.session, approvals=GrantedApprovals(LiveApprovals(approver, **desk), store))
    return bench


async def waiting(store: ApprovalStore, count: int = 1) -> list[ApprovalRequest]:
    await until(lambda: len(store.requests(waiting_only=True)) == count)
    return [one.request for one in store.requests(waiting_only=True)]


@pytest.mark.req("H-074")
@pytest.mark.parametrize("yes", [True, False])
async def test_a_call_waits_until_somebody_answers(store: ApprovalStore, approver: QueueApprover, yes: bool) -> None:
    bench = bench_with(approver, store)
    call = asyncio.ensure_future(bench.call("write", path="x", token="s3cr3t-canary-value"))
    (request,) = await waiting(store)
    assert bench.upstream.calls == []
    assert (request.server_id, request.tool_name, request.tool_digest) == ("s", "write", WRITE.digest)
    assert (request.principal, request.rule_id) == ("local", "default")
    assert "s3cr3t-canary-value" not in request.arguments
    approvals = Approvals(store, RECORDS.append)
    answered = approvals.approve(request.request_id, PERSON) if yes else approvals.deny(request.request_id, PERSON)
    assert answered
    assert type_of(await call) == ("" if yes else "ApprovalRejected")
    assert len(bench.upstream.calls) == int(yes)
    assert bench.outcomes[-1].approver == "terminal:alice"


async def test_many_calls_wait_side_by_side_and_are_answered_in_any_order(
    store: ApprovalStore, approver: QueueApprover
) -> None:
    bench = bench_with(approver, store)
    calls = [asyncio.ensure_future(bench.call("write", n=number)) for number in range(4)]
    approvals = Approvals(store, RECORDS.append)
    for place, request in enumerate(reversed(await waiting(store, 4))):
        (approvals.approve if place % 2 else approvals.deny)(request.request_id, PERSON)
    kinds = [type_of(outcome) for outcome in await asyncio.gather(*calls)]
    assert sorted(kinds) == ["", "", "ApprovalRejected", "ApprovalRejected"]


async def test_a_call_that_is_cancelled_leaves_nothing_to_answer(store: ApprovalStore, approver: QueueApprover) -> None:
    bench = bench_with(approver, store)
    call = asyncio.ensure_future(bench.call("write"))
    (request,) = await waiting(store)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: not store.requests(waiting_only=True))
    (after,) = store.requests(waiting_only=False)
    assert (after.request_id, after.state) == (request.request_id, QueueState.WITHDRAWN)


async def test_nobody_answers_and_the_call_is_refused(store: ApprovalStore, approver: QueueApprover) -> None:
    bench = bench_with(approver, store, expiry_s=0.3)
    assert type_of(await bench.call("write")) == "ApprovalExpired"
    assert bench.session.counters.approval_state is ApprovalState.EXPIRED
    await until(lambda: store.requests(waiting_only=False)[0].state is QueueState.EXPIRED)


async def test_a_queue_that_cannot_be_used_is_a_no(store: ApprovalStore, tmp_path: Path) -> None:
    class Broken(ApprovalStore):
        def is_unused(self) -> bool:
            return False

        def put(self, queued: QueuedRequest) -> None:  # noqa: ARG002
            raise ApprovalQueueError(f"{tmp_path} is full")

        def grants_for(self, *_: str) -> list[Any]:
            raise ApprovalQueueError("no")

    told: list[str] = []
    broken = Broken(tmp_path / "x", is_gone=lambda _: None)
    async with QueueApprover(broken, owner="me", report=told.append) as approver:
        bench = bench_with(approver, broken)
        outcome = await bench.call("write")
    assert type_of(outcome) == "ApprovalRejected"
    assert outcome.error is not None
    assert str(tmp_path) not in outcome.error.message
    assert told == [f"{tmp_path} is full"]


async def test_approval_grants_are_not_looked_for_where_nobody_ever_kept_one(tmp_path: Path) -> None:
    class Unread(ApprovalStore):
        def grants_for(self, *_: str) -> list[Any]:
            raise AssertionError("nothing can stand there")

    bench = bench_with(AutoApprover(), Unread(tmp_path / "x", is_gone=lambda _: None))
    assert type_of(await bench.call("write")) == ""
    assert not (tmp_path / "x").exists()


async def test_an_approval_grant_is_found_before_anybody_is_asked(
    store: ApprovalStore, approver: QueueApprover
) -> None:
    bench = bench_with(approver, store)
    first = asyncio.ensure_future(bench.call("write", repo="acme/a"))
    (request,) = await waiting(store)
    _, given = Approvals(store, RECORDS.append).approve(
        request.request_id, PERSON, terms=grant_terms("7d", ["/repo=acme/*"])
    )
    assert given is not None
    assert type_of(await first) == ""

    denied = bench_with(DenyApprover(), store)
    assert type_of(await denied.call("write", repo="acme/b")) == ""
    assert denied.outcomes[-1].approver == f"standing:{given.answer_id} by terminal:alice"
    assert type_of(await denied.call("write", repo="evil/b")) == "ApprovalRejected"
    assert type_of(await denied.call("put", repo="acme/b")) == "ApprovalRejected"


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [(Verdict.ASK, ""), (Verdict.HUMAN_ONLY, "ApprovalRejected"), (Verdict.DENY, "PolicyDenied")],
)
async def test_an_approval_grant_loosens_no_verdict(
    store: ApprovalStore, approver: QueueApprover, verdict: Verdict, kind: str
) -> None:
    call = asyncio.ensure_future(bench_with(approver, store).call("write"))
    (request,) = await waiting(store)
    Approvals(store, RECORDS.append).approve(request.request_id, PERSON, terms=grant_terms("7d", []))
    await call
    bench = bench_with(AutoApprover(), store, layer(verdict))
    assert type_of(await bench.call("write")) == kind


async def test_a_question_because_of_what_was_done_before_is_asked_all_the_same(
    store: ApprovalStore, approver: QueueApprover
) -> None:
    call = asyncio.ensure_future(bench_with(approver, store).call("write"))
    (request,) = await waiting(store)
    Approvals(store, RECORDS.append).approve(request.request_id, PERSON, terms=grant_terms("7d", []))
    await call
    used_up = Budget(scope=Scope.EXECUTION, limits={Measure.CALLS: 1}, then=Verdict.ASK)
    policy = Policy(layers=(Layer(name=LayerName.ORGANISATION, budgets=(used_up,)),))
    bench = bench_with(DenyApprover(), store, policy)
    assert type_of(await bench.call("write")) == ""
    assert type_of(await bench.call("write")) == "ApprovalRejected"


async def test_the_number_of_parked_runs_is_bounded_and_a_parked_one_holds_no_place_at_upstreams() -> None:
    release = asyncio.Event()

    class Slow(ScriptedApprover):
        together = True

        async def ask(self, request: Any) -> Any:
            await release.wait()
            return await super().ask(request)

    desk = LiveApprovals(Slow([ApprovalState.APPROVED]), bounds=ApprovalBounds(waiting_runs_max=1))
    limits = CallLimits(concurrent_max=1)
    first, second = Bench(policy=Policy(), limits=limits), Bench(policy=Policy(), limits=limits)
    first.session = changed(first.session, approvals=desk)
    second.session = changed(second.session, approvals=desk, run_id="other")
    parked = [asyncio.ensure_future(first.call("write")) for _ in range(2)]
    await until(lambda: desk.open_count == 2)
    first.session = changed(first.session, policy=ALLOW_ALL)
    assert type_of(await first.call("write")) == ""  # the only place at upstreams is free
    refused = await second.call("write")
    assert type_of(refused) == "ApprovalRejected"
    release.set()
    assert [type_of(outcome) for outcome in await asyncio.gather(*parked)] == ["", ""]
    assert type_of(await second.call("write")) == ""


async def test_an_answer_that_names_other_arguments_does_not_count(store: ApprovalStore) -> None:
    class Forged(ApprovalStore):
        def take(self, request_id: str, arguments_digest: str) -> Any:
            self.answer(request_id, arguments_digest, approved=True, approver="x")
            answer = super().take(request_id, arguments_digest)
            assert answer is not None
            return replace(answer, arguments_digest="sha256:other")

    forged = Forged(store.path, is_gone=lambda _: False)
    async with QueueApprover(forged, owner="me", report=lambda _: None) as approver:
        bench = bench_with(approver, forged)
        spec = ToolCallSpec(run_id="run", call_id=1, server_id="s", tool="write", arguments={})
        with anyio.fail_after(30):
            assert type_of(await bench.pipeline.run(spec, bench.session)) == "ApprovalRejected"
    forged.close()
