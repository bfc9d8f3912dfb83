"""What an execution puts into the pipeline stands between decide and approve; all other stages stay where they are."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, fields
from typing import TYPE_CHECKING, Any

import pytest

from call_contexts import changed
from moonpool.core.calls import ApprovalState, CallErrorType
from moonpool.core.manifest import Manifest, ServerListing
from moonpool.pipeline.approval import ScriptedApprover
from moonpool.pipeline.call_result import CallResult
from moonpool.pipeline.call_state import CallContext, Refusal, StageTools
from moonpool.pipeline.pipeline import CallPipeline
from moonpool.policy import Policy, Verdict, configuration_layer, server_rules
from pipeline.test_pipeline import CANARY, Bench, tool, type_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable

    from moonpool.core.audit_records import AuditRecord
    from moonpool.core.json import JsonObject
    from moonpool.features.approvals.model import ApprovalAnswer, ApprovalRequest
    from moonpool.pipeline.call_state import CallState

pytestmark = pytest.mark.anyio

RULES = [("ask", "ask"), ("no", "deny"), ("*", "allow")]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
TOOLS = tuple(tool(name, inputSchema=SCHEMA) for name in ("ask", "no", "yes"))
SECRET: JsonObject = {"content": [{"type": "text", "text": f"it is {CANARY}"}]}
MADE_UP = CallResult(raw={"content": [{"type": "text", "text": "made up"}]}, size_bytes=9, data_from="text")


class Put:
    """A stage that writes down what it sees, and answers, refuses or fails as it is told."""

    def __init__(self, trace: list[str], does: Any = None) -> None:
        self._trace, self._does = trace, does

    def take(self, call: CallState, tools: StageTools) -> Awaitable[CallResult] | None:
        del tools
        assert call.decision is not None
        self._trace.append(f"stage: {call.decision.verdict}")
        if isinstance(self._does, Exception):
            raise self._does
        return None if self._does is None else self._answer()

    def before_sending(self, call: CallState) -> None:
        self._trace.append(f"still: {call.approval}")

    async def _answer(self) -> CallResult:
        return self._does


class Watched(ScriptedApprover):
    def __init__(self, trace: list[str]) -> None:
        super().__init__([ApprovalState.APPROVED])
        self._trace = trace

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        self._trace.append("approve")
        return await super().ask(request)


def bench_with(*does: Any) -> tuple[Bench, list[str]]:
    """A pipeline over one server, an execution with a stage for each of `does`, and the trace of its calls."""
    trace: list[str] = []

    async def answer() -> JsonObject:
        trace.append(f"call after {bench.kinds[-1]}")
        return SECRET

    bench = Bench(
        answer, approver=Watched(trace), policy=Policy(layers=(configuration_layer(server_rules("s", RULES)),))
    )
    bench.manifest = Manifest(servers=(ServerListing(server_id="s", tools=TOOLS),))
    bench.session = changed(bench.session, stages=tuple(Put(trace, one) for one in does))
    return bench, trace


async def test_with_any_stages_put_in_a_call_passes_all_stages_in_their_order() -> None:
    for count in range(3):
        bench, trace = bench_with(*[None] * count)
        outcome = await bench.call("ask", n=1)
        assert trace == [
            *["stage: ask"] * count, "approve", *["still: APPROVED"] * 2 * count, "call after call_intent",
        ], count  # fmt: skip
        assert CANARY not in str(outcome.raw)
        assert "[REDACTED:TOKEN]" in str(outcome.raw)
        assert bench.kinds == ["call_intent", "call_outcome"], count
        assert bench.outcomes[0].redactions == {"TOKEN": 1}


async def test_no_call_leaves_that_was_forbidden_while_the_disk_took_its_intent() -> None:
    bench, trace = bench_with(None)
    record = bench.journal.record

    def while_stored(entry: AuditRecord) -> asyncio.Future[None]:
        if entry.kind == "call_intent":
            bench.session.stages[0].before_sending = forbidden  # type: ignore[method-assign]
        return record(entry)

    def forbidden(call: CallState) -> None:
        del call
        raise Refusal(CallErrorType.PLAN_EXCEEDED, "another call was not in the plan")

    bench.journal.record = while_stored  # type: ignore[method-assign]
    assert type_of(await bench.call("yes", n=1)) == "PlanExceeded"
    assert (bench.upstream.calls, bench.kinds) == ([], ["call_intent", "call_outcome"]), trace


async def test_no_stage_sees_a_call_that_is_not_resolved_and_valid() -> None:
    bench, trace = bench_with(MADE_UP)
    assert [type_of(await bench.call(name, n=n)) for name, n in (("gone", 1), ("yes", "x"))] == [
        "UnknownTool", "ValidationError",
    ]  # fmt: skip
    assert (trace, bench.kinds) == ([], ["call_outcome"] * 2)


async def test_a_stage_that_answers_takes_the_place_of_approval_and_call_and_of_nothing_else() -> None:
    bench, trace = bench_with(MADE_UP, None)
    outcome = await bench.call("ask", n=1)
    assert (outcome.raw, outcome.approval) == (MADE_UP.raw, ApprovalState.NOT_REQUIRED)
    assert (trace, bench.upstream.calls, bench.kinds) == (["stage: ask"], [], ["call_outcome"])


async def test_what_policy_denies_no_stage_allows() -> None:
    for does in (None, MADE_UP):
        bench, trace = bench_with(does)
        outcome = await bench.call("no", n=1)
        assert (type_of(outcome), outcome.raw, trace) == ("PolicyDenied", None, ["stage: deny"])
        assert (bench.upstream.calls, [one.verdict for one in bench.outcomes]) == ([], [Verdict.DENY])


async def test_a_stage_that_refuses_or_fails_sends_nothing_and_leaves_one_record() -> None:
    for does, error in ((Refusal(CallErrorType.PLAN_EXCEEDED, "no"), "PlanExceeded"), (RuntimeError("x"), "Internal")):
        bench, _ = bench_with(does)
        assert type_of(await bench.call("yes", n=1)) == error
        assert (bench.upstream.calls, bench.kinds) == ([], ["call_outcome"])


async def test_nothing_of_an_execution_but_its_stages_says_what_the_pipeline_does() -> None:
    """Frozen before the first call; and neither the pipeline nor a call of it takes a list of stages."""
    bench, _ = bench_with()
    for part, name in (
        (bench.session, "stages"), (bench.session, "grant"), (bench.session.grant, "policy"),
        (bench.session.identity, "principal"),
    ):  # fmt: skip
        with pytest.raises(FrozenInstanceError):
            setattr(part, name, None)
    assert {one.name for one in fields(StageTools)} == {"redactor", "checks"}  # no server, no journal
    assert [*inspect.signature(CallPipeline).parameters] == ["upstreams", "journal", "redactor", "observer"]
    assert [*inspect.signature(CallPipeline.run).parameters] == ["self", "spec", "context"]
    assert [one.name for one in fields(CallContext) if "stage" in str(one.type).lower()] == ["stages"]
