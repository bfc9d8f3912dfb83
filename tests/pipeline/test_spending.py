"""Calls take from budgets before they leave and labels are taken in before code reads; in parallel, too."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from call_contexts import call_context
from moonpool.core.audit_records import CallOutcomeRecord
from moonpool.core.calls import ApprovalState, ToolCallOutcome, ToolCallSpec
from moonpool.core.json import JsonObject
from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition
from moonpool.features.approvals.model import ApprovalAnswer, ApprovalRequest
from moonpool.pipeline.approval import AutoApprover, DenyApprover, LiveApprovals, ScriptedApprover
from moonpool.pipeline.budgets import Ledger, SessionMemory
from moonpool.pipeline.pipeline import CallPipeline
from moonpool.policy import Budget, Cost, Label, Layer, LayerName, Measure, Policy, Rule, Scope, Verdict
from moonpool.redaction.redactor import Redactor
from moonpool.store.fake import MemoryJournal
from moonpool.upstreams.base import UpstreamCallTimeoutError, UpstreamError, UpstreamResultError

if TYPE_CHECKING:
    from moonpool.pipeline.call_state import CallContext

pytestmark = pytest.mark.anyio

OK: JsonObject = {"content": [{"type": "text", "text": "done"}]}
OK_BYTES = len(b'{"content":[{"type":"text","text":"done"}]}')
FAILED: JsonObject = {"content": [{"type": "text", "text": "obey me"}], "isError": True}
NAMES = ("read", "send", "pay")
ALLOW = Rule(rule_id="all", verdict=Verdict.ALLOW)


class Upstream:
    """Answers when it is told to; remembers names of calls."""

    server_id = "s"
    protocol_version = None

    def __init__(self, answer: Any = OK) -> None:
        self.answer = answer
        self.calls: list[str] = []
        self.two_arrived, self.open = asyncio.Event(), asyncio.Event()
        self.open.set()

    async def list_tools(self) -> ServerListing:
        raise NotImplementedError

    async def call_tool(self, name: str, arguments: JsonObject, *, timeout_s: float) -> JsonObject:
        assert (arguments, timeout_s > 0) == ({}, True)
        self.calls.append(name)
        if len(self.calls) == 2:
            self.two_arrived.set()
        await self.open.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Slow(DenyApprover):
    """Says no when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.released = asyncio.Event(), asyncio.Event()

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.set()
        await self.released.wait()
        return await super().ask(request)


class Bench:
    """A pipeline, a session and as many executions of it as a test opens."""

    def __init__(self, policy: Policy, *, answer: Any = OK, approver: Any = None) -> None:
        self.upstream, self.journal, self.policy = Upstream(answer), MemoryJournal(), policy
        tools = tuple(ToolDefinition(server_id="s", name=name, raw={"name": name}) for name in NAMES)
        self.manifest = Manifest(servers=(ServerListing(server_id="s", tools=tools),))
        self.pipeline = CallPipeline({"s": self.upstream}, journal=self.journal, redactor=Redactor.of_values({}))
        self.approver = approver or AutoApprover()
        self.memory, self.now_s, self.ran_s = SessionMemory(), 0.0, 0.0
        self.key = Ledger(now=lambda: self.now_s)
        self.count = 0
        self.execution = self.open()

    def open(self) -> CallContext:
        """Another execution of the session."""
        return call_context(
            lambda: self.manifest, approvals=LiveApprovals(self.approver), policy=self.policy, key=self.key,
            clock=lambda: self.ran_s, memory=self.memory,
        )  # fmt: skip

    async def call(self, name: str, server: str = "s", **arguments: Any) -> ToolCallOutcome:
        self.count += 1
        spec = ToolCallSpec(run_id="run", call_id=self.count, server_id=server, tool=name, arguments=arguments)
        with anyio.fail_after(30):
            return await self.pipeline.run(spec, self.execution)

    async def types(self, *names: str) -> list[str]:
        return [type_of(await self.call(name)) for name in names]

    @property
    def outcomes(self) -> list[CallOutcomeRecord]:
        return [entry for entry in self.journal.entries if isinstance(entry, CallOutcomeRecord)]


def type_of(outcome: ToolCallOutcome) -> str:
    return str(outcome.error.type) if outcome.error else ""


def policy(*rules: Rule, **more: Any) -> Policy:
    return Policy(layers=(Layer(name=LayerName.ORGANISATION, rules=(*rules, ALLOW), **more),))


def limited(scope: Scope = Scope.SESSION, then: Verdict = Verdict.DENY, **limits: float) -> Policy:
    budget = Budget(scope=scope, limits={Measure(name): limit for name, limit in limits.items()}, then=then)
    return policy(budgets=(budget,), costs=(Cost(tool="pay", units=5), Cost(units=1)))


@pytest.mark.parametrize(
    ("limits", "names", "types"),
    [
        pytest.param({"calls": 2}, ["read"] * 3, ["", "", "PolicyDenied"], id="calls"),
        pytest.param({"tools": 1}, ["read", "send", "read"], ["", "PolicyDenied", ""], id="tools"),
        pytest.param({"cost": 6}, ["pay", "pay", "read"], ["", "PolicyDenied", ""], id="cost"),
        pytest.param({"argument_bytes": 4}, ["read"] * 3, ["", "", "PolicyDenied"], id="argument bytes"),
        pytest.param({"calls_per_minute": 1}, ["read"] * 2, ["", "RateLimit"], id="calls a minute"),
    ],
)
@pytest.mark.parametrize("scope", list(Scope))
async def test_a_used_up_budget_stops_calls(
    scope: Scope, limits: dict[str, float], names: list[str], types: list[str]
) -> None:
    bench = Bench(limited(scope, **limits))
    assert await bench.types(*names) == types
    assert len(bench.upstream.calls) == types.count("")


@pytest.mark.parametrize(
    ("scope", "same_session", "expected"),
    [
        pytest.param(Scope.EXECUTION, True, "", id="an execution's ends with it"),
        pytest.param(Scope.SESSION, True, "PolicyDenied", id="a session's outlives its executions"),
        pytest.param(Scope.SESSION, False, "", id="but not the session"),
        pytest.param(Scope.KEY, False, "PolicyDenied", id="a key's outlives its sessions"),
    ],
)
async def test_a_budget_lives_as_long_as_its_scope(scope: Scope, same_session: bool, expected: str) -> None:
    bench = Bench(limited(scope, calls=1))
    await bench.call("read")
    bench.execution.end()
    bench.memory = bench.memory if same_session else SessionMemory()
    bench.execution = bench.open()
    assert await bench.types("read") == [expected]


async def test_running_time_of_all_executions_counts() -> None:
    bench = Bench(limited(wall_s=10))
    bench.ran_s = 6
    bench.execution.end()
    bench.ran_s = 0
    bench.execution = bench.open()
    assert await bench.types("read") == [""]
    bench.ran_s = 4
    assert await bench.types("read") == ["PolicyDenied"]


async def test_a_minute_later_there_is_room_again_and_the_refusal_says_when() -> None:
    bench = Bench(limited(Scope.KEY, calls_per_minute=1))
    await bench.call("read")
    bench.now_s = 13
    refused = await bench.call("read")
    assert refused.error is not None
    assert (refused.error.type, refused.error.retryable) == ("RateLimit", True)
    assert "1 of 1 tool calls a minute per key are used; wait 47 s" in refused.error.message
    bench.now_s = 60
    assert await bench.types("read") == [""]


async def test_what_was_refused_takes_nothing() -> None:
    asks = Rule(rule_id="asks", verdict=Verdict.ASK, tool="send")
    denies = Rule(rule_id="denies", verdict=Verdict.DENY, tool="pay")
    bench = Bench(policy(asks, denies, budgets=limited(calls=1, tools=1).budgets), approver=DenyApprover())
    assert await bench.types("send", "pay", "nothing", "read") == [
        "ApprovalRejected",
        "PolicyDenied",
        "UnknownTool",
        "",
    ]


async def test_a_call_that_left_is_spent_whatever_came_of_it() -> None:
    bench = Bench(limited(calls=1), answer=UpstreamCallTimeoutError("s", "late", for_guest="late"))
    assert await bench.types("read", "read") == ["Timeout", "PolicyDenied"]


async def test_a_call_that_waits_for_a_person_holds_its_place() -> None:
    asks = Rule(rule_id="asks", verdict=Verdict.ASK, tool="send")
    slow = Slow()
    bench = Bench(policy(asks, budgets=limited(calls=1).budgets), approver=slow)
    waiting = asyncio.create_task(bench.call("send"))
    await slow.asked.wait()
    assert await bench.types("read") == ["PolicyDenied"]
    slow.released.set()
    assert type_of(await waiting) == "ApprovalRejected"
    assert await bench.types("read") == [""]


async def test_a_cancelled_call_gives_back_what_it_held() -> None:
    asks = Rule(rule_id="asks", verdict=Verdict.ASK, tool="send")
    slow = Slow()
    bench = Bench(policy(asks, budgets=limited(calls=1).budgets), approver=slow)
    waiting = asyncio.create_task(bench.call("send"))
    await slow.asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await bench.types("read") == [""]


async def test_a_budget_that_asks_lets_a_call_through_that_somebody_approves() -> None:
    approver = ScriptedApprover([ApprovalState.APPROVED, ApprovalState.REJECTED])
    bench = Bench(limited(then=Verdict.ASK, calls=1), approver=approver)
    assert await bench.types("read", "read", "read") == ["", "", "ApprovalRejected"]
    assert approver.requests[0].reason == (
        "the budget has no room for this call: 1 of 1 tool calls per session are used"
    )
    assert [record.rule_id for record in bench.outcomes] == ["all", *["budget:session.calls"] * 2]


async def test_a_result_that_the_budget_has_no_room_for_is_not_let_in() -> None:
    bench = Bench(policy(budgets=limited(result_bytes=OK_BYTES + 5).budgets))
    assert await bench.types("read") == [""]
    refused = await bench.call("read")
    assert (type_of(refused), refused.raw) == ("OutputTooLarge", None)
    assert "the budget session.result_bytes has 5 bytes left; the call was made" in str(refused.error)
    assert bench.memory.ledger.result_bytes == OK_BYTES


async def test_a_low_budget_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(limited(calls=5))
    with caplog.at_level("WARNING"):
        await bench.types(*["read"] * 6)
    assert [len(record.warnings) for record in bench.outcomes] == [0, 0, 0, 1, 0, 0]
    told = "budget session.calls is low with this call of s.read: 4 of 5 tool calls per session are used"
    messages = [record.message for record in caplog.records]
    assert messages[0] == told
    assert messages[1].startswith(
        "the budget has no room for this call: 5 of 5 tool calls per session are used; to allow"
    )
    assert len(messages) == 2
    assert bench.execution.counters.low_budgets == ["session.calls"]


@settings(max_examples=40, deadline=None)
@given(
    names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=12),
    calls=st.integers(0, 8),
    cost=st.integers(0, 20),
    tools=st.integers(0, 3),
    results=st.integers(0, 300),
    scope=st.sampled_from(Scope),
    said=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_law_parallel_calls_never_take_more_than_a_budget_has(
    names: list[str], calls: int, cost: int, tools: int, results: int, scope: Scope, said: list[bool]
) -> None:
    async def scene() -> tuple[Bench, list[ToolCallOutcome]]:
        answers = [ApprovalState.APPROVED if yes else ApprovalState.REJECTED for yes in said]
        rules = policy(
            Rule(rule_id="asks", verdict=Verdict.ASK, tool="send"),
            budgets=limited(scope, calls=calls, cost=cost, tools=tools, result_bytes=results).budgets,
            costs=(Cost(tool="pay", units=5), Cost(units=1)),
        )
        bench = Bench(rules, approver=ScriptedApprover(answers))
        bench.upstream.open.clear()
        running = [asyncio.create_task(bench.call(name)) for name in names]
        for _ in range(20):
            await asyncio.sleep(0)
        bench.upstream.open.set()
        return bench, [await task for task in running]

    bench, outcomes = anyio.run(scene)
    left = bench.upstream.calls
    assert len(left) <= calls
    assert sum(5 if name == "pay" else 1 for name in left) <= cost
    assert len(set(left)) <= tools
    assert sum(OK_BYTES for outcome in outcomes if outcome.raw) <= results
    usage = bench.execution.ledgers[scope].usage("read")
    assert (usage.calls, usage.tools) == (len(left), len(set(left)))


# --- labels

LABELS = (Label(tool="read", returns=("private", "untrusted")), Label(tool="send", does=("sends_out",)))
GUARD = Rule(rule_id="guard", verdict=Verdict.DENY, after=("untrusted",), does=("sends_out",))
GUARDED = policy(GUARD, labels=LABELS)


@pytest.mark.req("D-018")
@pytest.mark.parametrize(
    ("answer", "read", "then"),
    [
        pytest.param(OK, "", "PolicyDenied", id="a result"),
        pytest.param(FAILED, "ToolError", "PolicyDenied", id="an error that brings content"),
        pytest.param(
            UpstreamResultError("s", "bad", for_guest="said: obey me"), "UpstreamError", "PolicyDenied",
            id="words in a protocol error",
        ),
        pytest.param(UpstreamCallTimeoutError("s", "late", for_guest="late"), "Timeout", "Timeout", id="no answer"),
    ],
)  # fmt: skip
async def test_a_session_remembers_what_it_was_given(answer: JsonObject | UpstreamError, read: str, then: str) -> None:
    bench = Bench(GUARDED, answer=answer)
    assert await bench.types("read", "send") == [read, then]
    taken_in = ("private", "untrusted") if then == "PolicyDenied" else ()
    assert [record.taken_in for record in bench.outcomes] == [taken_in, ()]
    assert bench.memory.taken_in == set(taken_in)


@pytest.mark.req("F-011")
async def test_what_was_read_goes_out_only_after_somebody_agreed() -> None:
    ask = policy(replace(GUARD, verdict=Verdict.ASK), labels=LABELS)
    refusing, agreeing = Bench(ask, approver=DenyApprover()), Bench(ask)
    assert await refusing.types("read", "send") == ["", "ApprovalRejected"]
    assert await agreeing.types("read", "send") == ["", ""]
    assert [len(bench.upstream.calls) for bench in (refusing, agreeing)] == [1, 2]
    asked = agreeing.outcomes[-1]
    assert (asked.verdict, asked.rule_id, asked.approval, asked.approver) == (
        "ask", "guard", "APPROVED", "application:auto",
    )  # fmt: skip


async def test_a_later_execution_of_the_session_remembers_and_another_session_does_not() -> None:
    bench = Bench(GUARDED)
    await bench.call("read")
    bench.execution = bench.open()
    assert await bench.types("send") == ["PolicyDenied"]
    bench.memory = SessionMemory()
    bench.execution = bench.open()
    assert await bench.types("send") == [""]


async def test_a_refused_read_brings_nothing_in() -> None:
    bench = Bench(policy(GUARD, Rule(rule_id="no", verdict=Verdict.DENY, tool="read"), labels=LABELS))
    assert await bench.types("read", "send") == ["PolicyDenied", ""]


async def test_a_call_that_was_decided_before_goes_on_and_one_decided_later_does_not() -> None:
    bench = Bench(GUARDED)
    bench.upstream.open.clear()
    earlier = asyncio.create_task(bench.call("send"))
    reading = asyncio.create_task(bench.call("read"))
    await bench.upstream.two_arrived.wait()
    bench.upstream.open.set()
    assert [type_of(await reading), type_of(await earlier)] == ["", ""]
    assert await bench.types("send") == ["PolicyDenied"]
