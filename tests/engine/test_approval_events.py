"""Approvals as events: questions that an application takes from an iterator and answers, once each."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from call_contexts import changed
from moonpool.core.audit import JournalError
from moonpool.core.calls import ApprovalState
from moonpool.core.errors import InputError
from moonpool.features.approvals.events import EventApprover
from moonpool.features.approvals.model import PLAN, Answerer, ApprovalAnswerError, ApprovalRequest, QueueState
from moonpool.features.approvals.queue_approver import GrantedApprovals
from moonpool.features.approvals.service import Approvals, grant_terms
from moonpool.features.approvals.table import ApprovalStore
from moonpool.pipeline.approval import DenyApprover, LiveApprovals
from moonpool.policy import Layer, LayerName, Policy, Rule, Verdict
from pipeline.test_pipeline import Bench, type_of
from waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from moonpool.core.audit_records import ApprovalGrantRecord
    from moonpool.features.approvals.events import ApprovalQuestion
    from moonpool.features.approvals.model import ApprovalAnswer, ApprovalGrant
    from moonpool.features.approvals.service import GrantTerms

pytestmark = pytest.mark.anyio

ALICE = Answerer(name="app:alice", person=True)
TERMS = grant_terms("7d", ["/repo=acme/*"])
HUMAN_ONLY = Policy(
    layers=(Layer(name=LayerName.ORGANISATION, rules=(Rule(rule_id="r", verdict=Verdict.HUMAN_ONLY),)),)
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ApprovalStore]:
    made = ApprovalStore(tmp_path / "private" / "approvals.sqlite3", is_gone=lambda _: False)
    yield made
    made.close()


def request(number: int = 1, **fields: Any) -> ApprovalRequest:
    given = {"tool_name": "write", "tool_digest": "sha256:t", **fields}
    return ApprovalRequest(
        request_id="", run_id=f"run_{number}", principal="local:a", server_id="s", arguments="{}",
        arguments_digest=f"sha256:{number}", reason="it may change something", **given,
    )  # fmt: skip


def settle(approver: EventApprover, number: int = 1, **fields: Any) -> asyncio.Task[ApprovalAnswer]:
    return asyncio.ensure_future(LiveApprovals(approver).settle(request(number, **fields)))  # type: ignore[return-value]


async def test_what_is_cut_is_not_approved_for_a_while(store: ApprovalStore) -> None:
    approver = EventApprover(by=ALICE)
    with approver.serving(Approvals(store, list[Any]().append)), approver.questions() as questions:
        call = settle(approver, cut=True, whole='{"a": 1}')
        question = await anext(questions)
        with pytest.raises(ApprovalAnswerError, match="is not approved for a while"):
            await question.approve(terms=TERMS)
        await question.approve()
        assert (await call).state is ApprovalState.APPROVED
    assert await asyncio.to_thread(store.grants) == []


async def test_who_answered_is_on_record_and_a_reason_reaches_the_code() -> None:
    approver = EventApprover()
    bench = Bench(policy=Policy(), approver=approver)
    with approver.questions() as questions:
        for by, recorded in ((ALICE, "app:alice"), (Answerer(name="rules", person=False), "application:rules")):
            call = asyncio.ensure_future(bench.call("write"))
            await (await anext(questions)).approve(by=by)
            assert type_of(await call) == ""
            assert bench.outcomes[-1].approver == recorded
        call = asyncio.ensure_future(bench.call("write"))
        await (await anext(questions)).deny("use the staging repository")
        outcome = await call
    assert outcome.error is not None
    assert outcome.error.message.endswith("was not approved: use the staging repository")
    assert (bench.outcomes[-1].approver, bench.outcomes[-1].approval) == ("application:events", "REJECTED")


async def answered_twice(question: ApprovalQuestion, asked: asyncio.Task[ApprovalAnswer]) -> None:
    await question.deny()
    await asked


async def expired(question: ApprovalQuestion, asked: asyncio.Task[ApprovalAnswer]) -> None:
    del question
    assert (await asked).state is ApprovalState.EXPIRED


async def withdrawn(question: ApprovalQuestion, asked: asyncio.Task[ApprovalAnswer]) -> None:
    del question
    asked.cancel()
    await asyncio.wait({asked})


@pytest.mark.parametrize(
    ("what", "expiry_s", "state"),
    [
        (answered_twice, 60.0, QueueState.DENIED),
        (expired, 0.05, QueueState.EXPIRED),
        (withdrawn, 60.0, QueueState.WITHDRAWN),
    ],
)
async def test_a_second_or_late_answer_is_one_clear_error_and_changes_nothing(
    what: Any, expiry_s: float, state: QueueState
) -> None:
    approver = EventApprover()
    desk = LiveApprovals(approver, expiry_s=expiry_s)
    with approver.questions() as questions:
        asked: Any = asyncio.ensure_future(desk.settle(request()))
        question = await anext(questions)
        await what(question, asked)
        for late in (question.approve, question.deny):
            with pytest.raises(ApprovalAnswerError, match=f"cannot be answered any more: it is {state}$"):
                await late()
    assert (question.state, approver.open, desk.open_count) == (state, (), 0)


async def test_of_two_who_answer_at_the_same_moment_one_is_told() -> None:
    approver = EventApprover()
    with approver.questions() as questions:
        asked = settle(approver)
        question = await anext(questions)
        told = await asyncio.gather(question.approve(), question.deny(), return_exceptions=True)
        assert [type(one) for one in told] == [type(None), ApprovalAnswerError]
        assert (await asked).state is ApprovalState.APPROVED


async def test_an_answer_in_the_moment_that_the_call_ends_is_not_said_to_have_counted() -> None:
    approver = EventApprover()
    with approver.questions() as questions:
        asked = settle(approver)
        question = await anext(questions)
        answering = asyncio.ensure_future(question.approve())
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(ApprovalAnswerError, match="withdrawn"):
            await answering
        assert asked.cancelled()


async def test_several_consumers_share_the_questions_and_one_that_leaves_refuses_only_what_it_took() -> None:
    approver = EventApprover()
    with approver.questions() as stays:
        with approver.questions() as leaves:
            asked = [settle(approver, number) for number in (1, 2, 3)]
            taken = await anext(leaves)
            other = await anext(stays)
            assert taken.request.run_id != other.request.run_id
        await other.approve()
        await (await anext(stays)).approve()
        states = Counter([(await one).state for one in asked])
        assert states == {ApprovalState.APPROVED: 2, ApprovalState.REJECTED: 1}
        with pytest.raises(StopAsyncIteration):
            await anext(leaves)
        untaken = settle(approver, 4)
        await until(lambda: approver.open)
    assert "this application takes no more questions" in (await untaken).note
    assert approver.open == ()


async def test_a_consumer_that_waits_ends_with_its_application() -> None:
    approver = EventApprover()
    with approver.questions() as questions:
        reading: Any = asyncio.ensure_future(anext(questions))
        with approver.serving(Approvals(None, list[Any]().append)):  # type: ignore[arg-type]
            with pytest.raises(InputError, match="another application"), approver.serving(None):  # type: ignore[arg-type]
                pass
            await asyncio.sleep(0)
        with pytest.raises(StopAsyncIteration):
            await reading


async def test_the_number_of_open_questions_is_bounded() -> None:
    approver = EventApprover(open_count_max=2)
    with approver.questions():
        asked = [settle(approver, number) for number in range(3)]
        refused = await asked[2]
        assert (refused.state, refused.approver) == (ApprovalState.REJECTED, "application:limit")
        assert len(approver.open) == 2
    assert {(await one).state for one in asked} == {ApprovalState.REJECTED}


async def test_what_policy_reserves_for_a_person_is_approved_by_one() -> None:
    approver = EventApprover()
    bench = Bench(policy=HUMAN_ONLY, approver=approver)
    with approver.questions() as questions:
        call = asyncio.ensure_future(bench.call("write"))
        question = await anext(questions)
        with pytest.raises(ApprovalAnswerError, match="policy wants a person"):
            await question.approve()
        assert question.state is QueueState.WAITING
        await question.approve(by=ALICE)
        assert type_of(await call) == ""


@pytest.mark.parametrize(
    ("by", "problem"),
    [
        (Answerer(name="application:alice", person=True), "the name of a program"),
        (Answerer(name="command:alice", person=True), "the name of a program"),
        (Answerer(name="", person=True), "must be printable"),
        (Answerer(name="a\nb", person=False), "must be printable"),
        (Answerer(name="a" * 201, person=False), "at most 200"),
    ],
)
def test_a_name_that_records_could_not_tell_is_refused(by: Answerer, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        EventApprover(by=by)


async def test_an_answer_may_stand_for_a_while_and_is_on_record(store: ApprovalStore) -> None:
    approver, records = EventApprover(), list[Any]()
    bench = Bench(policy=Policy())
    bench.session = changed(bench.session, approvals=GrantedApprovals(LiveApprovals(approver), store))
    with approver.serving(Approvals(store, records.append)), approver.questions() as questions:
        call = asyncio.ensure_future(bench.call("write", repo="acme/a"))
        given = await (await anext(questions)).approve(by=ALICE, terms=TERMS)
        assert type_of(await call) == ""
    assert given is not None
    assert [(one.what, one.run_id, one.approver) for one in records] == [("given", given.answer_id, "app:alice")]
    bench.session = changed(bench.session, approvals=GrantedApprovals(LiveApprovals(DenyApprover()), store))
    assert type_of(await bench.call("write", repo="acme/b")) == ""
    assert bench.outcomes[-1].approver == f"standing:{given.answer_id} by app:alice"
    assert type_of(await bench.call("write", repo="evil/b")) == "ApprovalRejected"


async def test_an_answer_that_cannot_be_kept_is_none_and_can_be_given_again(store: ApprovalStore) -> None:
    def full(_: ApprovalGrantRecord) -> None:
        raise JournalError("the disk is full")

    approver = EventApprover()
    with approver.serving(Approvals(store, full)), approver.questions() as questions:
        asked = settle(approver)
        question = await anext(questions)
        with pytest.raises(JournalError):
            await question.approve(by=ALICE, terms=TERMS)
        assert question.state is QueueState.WAITING
        assert await asyncio.to_thread(store.grants) == []
        await question.approve(by=ALICE)
        assert (await asked).state is ApprovalState.APPROVED


async def test_an_answer_to_a_call_that_ended_while_it_was_kept_does_not_stand(store: ApprovalStore) -> None:
    approver, records = EventApprover(), list[Any]()
    loop = asyncio.get_running_loop()

    def record(one: ApprovalGrantRecord) -> None:
        records.append(one)
        loop.call_soon_threadsafe(asked.cancel)
        asyncio.run_coroutine_threadsafe(asyncio.wait({asked}), loop).result()

    with approver.serving(Approvals(store, record)), approver.questions() as questions:
        asked = settle(approver)
        question = await anext(questions)
        with pytest.raises(ApprovalAnswerError, match="withdrawn"):
            await question.approve(by=ALICE, terms=TERMS)
    assert [one.what for one in records] == ["given", "removed"]
    assert await asyncio.to_thread(store.grants) == []


@pytest.mark.parametrize("tool_name", [PLAN, "sample"])
async def test_only_the_answer_about_a_call_may_stand(store: ApprovalStore, tool_name: str) -> None:
    approver = EventApprover()
    with approver.serving(Approvals(store, list[Any]().append)), approver.questions() as questions:
        asked = settle(approver, tool_name=tool_name, tool_digest="")
        question = await anext(questions)
        with pytest.raises(ApprovalAnswerError, match="not about a call"):
            await question.approve(by=ALICE, terms=TERMS)
        await question.approve(by=ALICE)
        assert (await asked).state is ApprovalState.APPROVED


async def test_without_an_application_no_answer_stands() -> None:
    approver = EventApprover()
    with approver.questions() as questions:
        asked = settle(approver)
        question = await anext(questions)
        with pytest.raises(ApprovalAnswerError, match="without terms"):
            await question.approve(by=ALICE, terms=TERMS)
        await question.deny()
        assert (await asked).state is ApprovalState.REJECTED


async def test_a_question_whose_answer_fails_after_its_reader_left_is_refused() -> None:
    begun, go_on = threading.Event(), threading.Event()

    class FullBook:
        def give(self, request: ApprovalRequest, answerer: Answerer, terms: GrantTerms) -> ApprovalGrant:
            del request, answerer, terms
            begun.set()
            assert go_on.wait(30)
            raise JournalError("the disk is full")

        def remove_grant(self, answer_id: str, answerer: Answerer) -> None:
            raise AssertionError(f"nothing was given: {answer_id}, {answerer}")

    approver = EventApprover()
    with approver.serving(FullBook()), approver.questions() as other:
        with approver.questions() as questions:
            asked = settle(approver)
            approving = asyncio.ensure_future((await anext(questions)).approve(by=ALICE, terms=TERMS))
            await asyncio.to_thread(begun.wait, 30)
        go_on.set()
        with pytest.raises(JournalError):
            await approving
        await until(asked.done)
        answer = await asked
        assert (answer.state, approver.open) == (ApprovalState.REJECTED, ())
        del other
