"""Every call passes all stages, fails as an outcome, and is recorded exactly once."""

from __future__ import annotations

import asyncio
import shlex
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest
from blockbuster import blockbuster_ctx

from call_contexts import call_context, changed
from moonpool.core.audit import verify_rows
from moonpool.core.audit_records import CallOutcomeRecord, CallsRefusedRecord
from moonpool.core.calls import ApprovalState, ToolCallOutcome, ToolCallSpec
from moonpool.core.manifest import RESERVED_PREFIX, Manifest, ServerListing, ToolDefinition
from moonpool.features.approvals.model import ApprovalAnswer
from moonpool.pipeline.approval import AutoApprover, DenyApprover, LiveApprovals, ScriptedApprover
from moonpool.pipeline.call_counters import COUNTED_PER_RECORD, OWN_RECORDS_MAX
from moonpool.pipeline.call_records import refused_record
from moonpool.pipeline.execution_grant import CallLimits, ServerTrust
from moonpool.pipeline.pipeline import CallPipeline
from moonpool.policy import (
    Below,
    Condition,
    Layer,
    LayerName,
    Policy,
    Rule,
    Verdict,
    configuration_layer,
    literal_glob,
    server_rules,
)
from moonpool.redaction.redactor import Redactor
from moonpool.store.fake import MemoryJournal
from moonpool.store.journal import open_journal
from moonpool.store.journal_reading import read_rows
from moonpool.upstreams.base import (
    UpstreamCallTimeoutError,
    UpstreamDiedError,
    UpstreamError,
    UpstreamGarbageError,
    UpstreamResultError,
    UpstreamResultTooLargeError,
    UpstreamUnreachableError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import ServerListing as Listing
    from moonpool.features.approvals.model import ApprovalRequest
    from moonpool.pipeline.approval import Approver
    from moonpool.pipeline.execution_grant import ClientConsent

pytestmark = pytest.mark.anyio

CANARY = "s3cr3t-canary-value"
OK: JsonObject = {"content": [{"type": "text", "text": "done"}]}


class FakeUpstream:
    """Answers with `answer`, or raises it, or runs it; remembers the calls."""

    server_id = "s"
    protocol_version = None

    def __init__(self, answer: Any = None) -> None:
        self.answer = OK if answer is None else answer
        self.calls: list[tuple[str, JsonObject]] = []
        self.running = 0
        self.running_max = 0

    async def list_tools(self) -> Listing:
        raise NotImplementedError

    async def call_tool(self, name: str, arguments: JsonObject, *, timeout_s: float) -> JsonObject:
        assert timeout_s > 0
        self.calls.append((name, arguments))
        self.running += 1
        self.running_max = max(self.running_max, self.running)
        try:
            if isinstance(self.answer, Exception):
                raise self.answer
            return await self.answer() if callable(self.answer) else self.answer
        finally:
            self.running -= 1


def tool(name: str, **raw: Any) -> ToolDefinition:
    return ToolDefinition(server_id="s", name=name, raw={"name": name, **raw})


READ = tool(
    "read",
    annotations={"readOnlyHint": True},
    inputSchema={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    outputSchema={"type": "object", "properties": {"n": {"type": "integer"}}},
)
WRITE = tool("write")
REPEATABLE = tool("put", annotations={"idempotentHint": True})
ALLOW_ALL = Policy(layers=(configuration_layer(server_rules("s", [("[rwp]*", "allow")])),))


class Bench:
    """A pipeline with fakes at both ends."""

    def __init__(
        self, answer: Any = None, *, approver: Approver | None = None, policy: Policy = ALLOW_ALL,
        trusted: bool = True, limits: CallLimits | None = None, expiry_s: float = 600.0,
        consent: ClientConsent | None = None, **trust: Any,
    ) -> None:  # fmt: skip
        self.upstream = FakeUpstream(answer)
        self.journal = MemoryJournal()
        self.manifest = Manifest(servers=(ServerListing(server_id="s", tools=(READ, WRITE, REPEATABLE)),))
        redactor = Redactor.of_values({"TOKEN": CANARY})
        self.pipeline = CallPipeline({"s": self.upstream}, journal=self.journal, redactor=redactor)
        self.session = call_context(
            lambda: self.manifest, approvals=LiveApprovals(approver or AutoApprover(), expiry_s=expiry_s),
            policy=policy, trust={"s": ServerTrust(trusted=trusted, **trust)}, limits=limits or CallLimits(),
            consent=consent,
        )  # fmt: skip
        self.count = 0

    async def call(self, name: str = "read", server: str = "s", **arguments: Any) -> ToolCallOutcome:
        self.count += 1
        if name == "read" and not arguments:
            arguments = {"path": "a"}
        spec = ToolCallSpec(run_id="run", call_id=self.count, server_id=server, tool=name, arguments=arguments)
        with anyio.fail_after(30):
            return await self.pipeline.run(spec, self.session)

    @property
    def outcomes(self) -> list[CallOutcomeRecord]:
        return [entry for entry in self.journal.entries if isinstance(entry, CallOutcomeRecord)]

    @property
    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.journal.entries]


def type_of(outcome: ToolCallOutcome) -> str:
    return str(outcome.error.type) if outcome.error else ""


@pytest.mark.req("H-058", "H-059", "D-008", "F-004")
async def test_a_read_goes_through_and_leaves_one_record() -> None:
    bench = Bench({"content": [], "structuredContent": {"n": 1}})
    outcome = await bench.call(path="/x")
    assert (outcome.ok, outcome.data_from, outcome.raw) == (
        True, "structured", {"content": [], "structuredContent": {"n": 1}},
    )  # fmt: skip
    assert bench.upstream.calls == [("read", {"path": "/x"})]
    (record,) = bench.outcomes
    assert bench.kinds == ["call_outcome"]
    assert (record.server_id, record.tool_name, record.code_digest, record.verdict, record.error_type) == (
        "s", "read", "sha256:c", "allow", "",
    )  # fmt: skip
    assert record.arguments_digest.startswith("sha256:")
    assert record.result_bytes > 0
    assert (record.principal, record.session_id, record.run_id) == ("local", "session", "run")
    assert verify_rows(bench.journal.rows).ok


async def test_the_intent_of_a_write_is_stored_before_it_leaves() -> None:
    bench = Bench()
    seen: list[list[str]] = []

    async def answer() -> JsonObject:
        seen.append(bench.kinds)
        return OK

    bench.upstream.answer = answer
    assert (await bench.call("write")).ok
    assert seen == [["call_intent"]]
    assert bench.kinds == ["call_intent", "call_outcome"]


@pytest.mark.req("D-010")
async def test_a_hint_of_an_untrusted_server_does_not_spare_the_intent() -> None:
    bench = Bench(trusted=False)
    await bench.call()
    assert bench.kinds == ["call_intent", "call_outcome"]


@pytest.mark.parametrize("name", ["read", "write"])
async def test_when_the_journal_fails_nothing_gets_through(name: str, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.journal.broken = "audit journal /private/audit.sqlite3 cannot grow because the disk is full"
    with caplog.at_level("ERROR"):
        outcome = await bench.call(name)
    assert (type_of(outcome), outcome.raw) == ("Internal", None)
    assert outcome.error is not None
    assert "the audit trail cannot be written; the operator sees why" in outcome.error.message
    assert "audit.sqlite3" not in outcome.error.message  # a path of the host is not for the guest
    assert "the disk is full" in caplog.text
    assert len(bench.upstream.calls) == (1 if name == "read" else 0)


async def test_an_unknown_tool_is_answered_with_near_names() -> None:
    bench = Bench()
    outcome = await bench.call("raed")
    assert (type_of(outcome), outcome.error.message if outcome.error else "") == (
        "UnknownTool", 'there is no tool s.raed; did you mean s.read? Example: await servers.s.read(path="…")',
    )  # fmt: skip
    assert [record.error_type for record in bench.outcomes] == ["UnknownTool"]


async def test_whoever_keeps_guessing_names_is_only_refused() -> None:
    bench = Bench()
    outcomes = [await bench.call("raed") for _ in range(21)]
    helped = ["did you mean" in outcome.error.message for outcome in outcomes if outcome.error]
    assert helped == [True] * 20 + [False]


async def test_whoever_keeps_guessing_parameters_is_only_refused() -> None:
    bench = Bench()
    outcomes = [await bench.call("read", paht="a") for _ in range(21)]
    helped = ["you gave 'paht'" in outcome.error.message for outcome in outcomes if outcome.error]
    assert helped == [True] * 20 + [False]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param({"path": 1}, "at 'path': 1 is not of type", id="wrong type"),
        pytest.param({"pth": "x"}, "\"path\" is a required property (you gave 'pth')", id="misspelt"),
        pytest.param({"path": "\ud800"}, "a value that JSON cannot carry", id="lone surrogate"),
        pytest.param({"path": "x", "y": float("nan")}, "a value that JSON cannot carry", id="NaN"),
        pytest.param({"path": "x" * (17 * 1024**2)}, "at most 16777216 are taken", id="too large"),
    ],
)
@pytest.mark.req("X-02")
async def test_bad_arguments_never_leave(arguments: dict[str, Any], words: str) -> None:
    bench = Bench()
    outcome = await bench.call(**arguments)
    assert type_of(outcome) == "ValidationError"
    assert outcome.error is not None
    assert words in outcome.error.message
    assert bench.upstream.calls == []
    assert len(bench.outcomes) == 1


async def test_only_the_first_refusals_show_how_the_tool_is_called() -> None:
    bench = Bench(limits=CallLimits(examples_max=2))
    told = [(await bench.call(wrong=1)).error for _ in range(3)]
    assert [one is not None and 'Example: await servers.s.read(path="…")' in one.message for one in told] == [
        True,
        True,
        False,
    ]


async def test_bottomless_arguments_are_refused() -> None:
    deep: Any = {}
    for _ in range(500):
        deep = {"a": deep}
    outcome = await Bench().call(path="x", deep=deep)
    assert outcome.error is not None
    assert outcome.error.message.startswith("arguments of s.read are nested deeper than 64 levels; flatten them.")


@pytest.mark.req("H-059", "H-074", "H-090", "D-008")
async def test_a_denied_call_makes_no_traffic() -> None:
    bench = Bench(policy=Policy(layers=(configuration_layer(server_rules("s", [("write", "deny")])),)))
    outcome = await bench.call("write")
    assert type_of(outcome) == "PolicyDenied"
    assert bench.upstream.calls == []
    assert [(record.verdict, record.rule_id) for record in bench.outcomes] == [("deny", "s:deny:write")]


async def test_what_is_redacted_in_a_name_does_not_open_the_quotes_of_the_operators_command(
    caplog: pytest.LogCaptureFixture,
) -> None:
    evil = tool("password='; touch pwned #")
    bench = Bench(policy=Policy(layers=(configuration_layer(server_rules("s", [(literal_glob(evil.name), "deny")])),)))
    bench.manifest = Manifest(servers=(ServerListing(server_id="s", tools=(evil,)),))
    bench.pipeline = CallPipeline({"s": bench.upstream}, journal=bench.journal, redactor=Redactor.of({}))
    assert type_of(await bench.call(evil.name)) == "PolicyDenied"
    _, _, command = caplog.messages[-1].partition("to allow it: ")
    assert shlex.split(command) == ["moonpool", "allow", f"s.{evil.name}"]


@pytest.mark.req("H-074", "H-090", "X-06", "D-004", "F-012")
async def test_without_anybody_to_ask_the_call_is_denied_and_the_rule_named() -> None:
    reports: list[str] = []
    bench = Bench(policy=Policy(), approver=DenyApprover(reports.append, why="there is no terminal to ask on"))
    outcome = await bench.call("write")
    assert type_of(outcome) == "ApprovalRejected"
    assert outcome.error is not None
    assert outcome.error.message == (
        "s.write was not approved: there is no terminal to ask on; the operator is told what would allow it"
    )
    (report,) = reports
    assert report.endswith("there is no terminal to ask on; to allow it: moonpool allow s.write")
    assert bench.upstream.calls == []


@pytest.mark.req("X-06")
async def test_automatic_approval_is_audited_under_its_name() -> None:
    bench = Bench(policy=Policy())
    outcome = await bench.call("write")
    assert outcome.approval is ApprovalState.APPROVED
    assert [(record.approval, record.approver) for record in bench.outcomes] == [("APPROVED", "application:auto")]


@pytest.mark.req("X-06")
async def test_automatic_approval_never_answers_what_wants_a_person() -> None:
    rule = Rule(rule_id="h", verdict=Verdict.HUMAN_ONLY, tool="write")
    bench = Bench(policy=Policy(layers=(configuration_layer((rule,)),)))
    assert type_of(await bench.call("write")) == "ApprovalRejected"
    assert bench.upstream.calls == []


async def never(request: ApprovalRequest) -> ApprovalAnswer:
    await anyio.sleep_forever()
    raise AssertionError


async def replayed(request: ApprovalRequest) -> ApprovalAnswer:
    """A yes that was given to something else."""
    return ApprovalAnswer(
        request_id="another", arguments_digest=request.arguments_digest, state=ApprovalState.APPROVED, approver="x"
    )


async def broken(request: ApprovalRequest) -> ApprovalAnswer:
    raise RuntimeError("window closed")


class Asking:
    together = False

    def __init__(self, ask: Callable[[ApprovalRequest], Awaitable[ApprovalAnswer]]) -> None:
        self._ask = ask

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        return await self._ask(request)


@pytest.mark.parametrize(
    ("approver", "error", "state"),
    [
        pytest.param(ScriptedApprover([ApprovalState.APPROVED]), "", "APPROVED", id="yes"),
        pytest.param(ScriptedApprover([ApprovalState.REJECTED]), "ApprovalRejected", "REJECTED", id="no"),
        pytest.param(Asking(never), "ApprovalExpired", "EXPIRED", id="silence denies"),
        pytest.param(Asking(replayed), "ApprovalRejected", "REJECTED", id="an answer to another question is a no"),
        pytest.param(Asking(broken), "ApprovalRejected", "REJECTED", id="a failing approver is a no"),
        pytest.param(ScriptedApprover([ApprovalState.PENDING]), "ApprovalRejected", "REJECTED", id="no answer is a no"),
    ],
)
@pytest.mark.req("H-034")
async def test_an_answer_leads_to(approver: Approver, error: str, state: str) -> None:
    bench = Bench(policy=Policy(), approver=approver, expiry_s=0.05)
    outcome = await bench.call("write")
    assert (type_of(outcome), outcome.approval, bench.session.counters.approval_state) == (error, state, state)
    assert len(bench.upstream.calls) == (0 if error else 1)
    assert [record.approval for record in bench.outcomes] == [state]


async def test_a_question_is_redacted_bounded_and_harmless_to_a_terminal() -> None:
    approver = ScriptedApprover([ApprovalState.REJECTED])
    bench = Bench(policy=Policy(), approver=approver)
    await bench.call("write", a=CANARY, b="\x1b[31m\u202eevil", c="x" * 100_000)
    (request,) = approver.requests
    assert CANARY not in request.arguments
    assert "[REDACTED:TOKEN]" in request.arguments
    assert all(char.isprintable() or char == "\n" for char in request.arguments)
    assert len(request.arguments) < 5000
    assert request.reason == "no rule matches s.write and the server does not declare it read-only"


async def test_questions_are_put_one_after_the_other() -> None:
    open_now = 0
    most = 0

    async def ask(request: ApprovalRequest) -> ApprovalAnswer:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        await asyncio.sleep(0)
        open_now -= 1
        return ApprovalAnswer(
            request_id=request.request_id, arguments_digest=request.arguments_digest,
            state=ApprovalState.APPROVED, approver="x",
        )  # fmt: skip

    bench = Bench(policy=Policy(), approver=Asking(ask))
    outcomes = await asyncio.gather(*(bench.call("write", n=n) for n in range(20)))
    assert all(outcome.ok for outcome in outcomes)
    assert most == 1


async def test_open_questions_are_bounded_and_pending_shows() -> None:
    bench = Bench(policy=Policy(), approver=Asking(never), limits=CallLimits(questions_max=100))
    tasks = [asyncio.ensure_future(bench.call("write", n=n)) for n in range(64)]
    await asyncio.sleep(0)
    assert bench.session.counters.approval_state is ApprovalState.PENDING
    outcome = await bench.call("write")
    assert outcome.error is not None
    assert outcome.error.message == "s.write was not approved: 64 approvals are open already; answer them first"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert bench.session.grant.approvals.open_count == 0
    assert bench.upstream.calls == []
    assert Counter(record.error_type for record in bench.outcomes) == {"Cancelled": 64, "ApprovalRejected": 1}


async def test_one_execution_cannot_fill_the_approval_service_and_all_its_questions_are_put_in_turn() -> None:
    most = 0

    async def ask(request: ApprovalRequest) -> ApprovalAnswer:
        nonlocal most
        await asyncio.sleep(0)
        most = max(most, bench.session.grant.approvals.open_count)
        return await AutoApprover().ask(request)

    bench = Bench(policy=Policy(), approver=Asking(ask))
    outcomes = await asyncio.gather(*(bench.call("write", n=n) for n in range(100)))
    assert all(outcome.ok for outcome in outcomes)
    assert most == CallLimits().questions_max
    assert (bench.session.counters.pending, bench.session.grant.approvals.open_count) == (0, 0)


FAILURES: list[tuple[UpstreamError, str, bool, bool]] = [
    (UpstreamCallTimeoutError("s", "did not answer"), "Timeout", True, False),
    (UpstreamDiedError("s", "ended the connection"), "TransientNetwork", True, False),
    (UpstreamUnreachableError("s", "cannot be reached"), "TransientNetwork", True, True),
    (UpstreamGarbageError("s", "printed garbage"), "UpstreamError", False, False),
    (UpstreamResultTooLargeError("s", "sent too much"), "OutputTooLarge", False, False),
]


@pytest.mark.parametrize(("failure", "kind", "read_retryable", "write_retryable"), FAILURES)
@pytest.mark.req("H-064", "X-21")
async def test_a_failing_upstream_is_typed_and_retryable_by_cause_and_idempotency(
    failure: UpstreamError, kind: str, read_retryable: bool, write_retryable: bool
) -> None:
    bench = Bench(failure)
    read, put, write = await bench.call("read"), await bench.call("put"), await bench.call("write")
    assert [type_of(outcome) for outcome in (read, put, write)] == [kind] * 3
    retryable = [outcome.error.retryable for outcome in (read, put, write) if outcome.error]
    assert retryable == [read_retryable, read_retryable, write_retryable]


async def test_a_lost_answer_to_a_write_says_to_look_first() -> None:
    died = UpstreamDiedError("s", "died (exit status 3)", for_guest="ended the connection")
    outcome = await Bench(died).call("write")
    assert outcome.error is not None
    assert outcome.error.message == (
        "server 's' ended the connection; the call may have been carried out, so look before you repeat it"
    )


@pytest.mark.req("X-21")
async def test_the_hosts_word_makes_a_tool_repeatable() -> None:
    bench = Bench(UpstreamDiedError("s", "died"), trusted=False, idempotent=("wr*",))
    outcome = await bench.call("write")
    assert outcome.error is not None
    assert outcome.error.retryable


@pytest.mark.req("H-041", "H-044")
async def test_an_error_result_is_a_tool_error_with_its_raw_form() -> None:
    raw: JsonObject = {"isError": True, "content": [{"type": "text", "text": "no such file"}]}
    outcome = await Bench(raw).call()
    assert outcome.error is not None
    assert outcome.error.to_json() == {"type": "ToolError", "message": "no such file", "retryable": False}
    assert (outcome.raw, outcome.data_from) == (raw, None)


@pytest.mark.req("H-076")
async def test_a_result_that_does_not_fit_its_schema_is_delivered_with_a_warning() -> None:
    bench = Bench({"content": [], "structuredContent": {"n": CANARY}})
    outcome = await bench.call()
    assert outcome.ok
    assert outcome.warnings == (
        "structuredContent does not fit outputSchema: at 'n': a value is not of type \"integer\"",
    )
    assert bench.outcomes[0].warnings == outcome.warnings


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param({}, "UpstreamError", id="no content"),
        pytest.param({"content": "x"}, "UpstreamError", id="content is a string"),
        pytest.param({"content": [], "structuredContent": "\ud800"}, "UpstreamError", id="lone surrogate"),
        pytest.param({"content": [{"type": "text", "text": object()}]}, "UpstreamError", id="not JSON"),
    ],
)
async def test_a_result_that_is_none_is_an_upstream_error(answer: Any, kind: str) -> None:
    assert type_of(await Bench(answer).call()) == kind


async def test_a_bottomless_result_is_an_upstream_error() -> None:
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    assert type_of(await Bench({"content": [], "structuredContent": deep}).call()) == "UpstreamError"


async def test_a_result_above_the_limit_is_an_error_not_a_cut() -> None:
    bench = Bench({"content": [{"type": "text", "text": "x" * 2000}]}, limits=CallLimits(result_bytes_max=1000))
    outcome = await bench.call()
    assert type_of(outcome) == "OutputTooLarge"
    assert outcome.raw is None


@pytest.mark.parametrize("padding", [0, 300_000])
@pytest.mark.req("H-022")
async def test_secrets_are_taken_out_of_data_and_errors(padding: int) -> None:
    text = "x" * padding + CANARY
    bench = Bench({"content": [{"type": "text", "text": text}], "structuredContent": {CANARY: [text]}})
    outcome = await bench.call()
    assert CANARY not in repr(outcome)
    assert outcome.redactions == 3
    assert bench.outcomes[0].redactions == {"TOKEN": 3}
    bench.upstream.answer = {"isError": True, "content": [{"type": "text", "text": "y" * 5980 + CANARY + "y" * 9000}]}
    assert "canary" not in repr(await bench.call())
    bench.upstream.answer = UpstreamResultError("s", "answered", for_guest=f"answered {CANARY}")
    outcome = await bench.call()
    assert outcome.error is not None
    assert outcome.error.message == "server 's' answered [REDACTED:TOKEN]"


@pytest.mark.req("H-058")
async def test_the_journal_never_holds_values() -> None:
    bench = Bench({"content": [{"type": "text", "text": "result-value"}]}, policy=Policy())
    await bench.call("write", secret="argument-value")
    await bench.call("write" + CANARY)
    stored = b"".join(row.body for row in bench.journal.rows)
    assert not any(word in stored for word in (b"result-value", b"argument-value", CANARY.encode()))


async def test_hostile_names_are_recorded_cut_and_storable() -> None:
    bench = Bench()
    await bench.call("\ud800" * 1000, server="\x00" * 100_000)
    (record,) = bench.outcomes
    assert (record.tool_name, len(record.server_id)) == ("?" * 256, 256)


async def test_text_that_redaction_turned_into_no_json_is_text() -> None:
    bench = Bench({"content": [{"type": "text", "text": '{"pin": 12345678}'}]})
    bench.pipeline = CallPipeline(
        {"s": bench.upstream}, journal=bench.journal, redactor=Redactor.of_values({"P": "12345678"})
    )
    assert (await bench.call()).data_from == "text"


async def test_a_call_after_the_end_is_refused_and_recorded() -> None:
    bench = Bench()
    bench.session.end()
    kinds = [type_of(await bench.call()) for _ in range(3)]
    assert kinds == ["ExecutionEnded"] * 3
    assert (bench.session.counters.calls, bench.session.counters.refused, len(bench.outcomes)) == (0, 3, 3)
    assert bench.upstream.calls == []


async def test_an_approval_that_comes_after_the_end_changes_nothing() -> None:
    bench = Bench(policy=Policy())

    async def ask(request: ApprovalRequest) -> ApprovalAnswer:
        bench.session.end()
        return await AutoApprover().ask(request)

    bench.session = changed(bench.session, approvals=LiveApprovals(Asking(ask)))
    assert type_of(await bench.call("write")) == "ExecutionEnded"
    assert bench.upstream.calls == []


async def test_a_tool_that_is_paused_while_somebody_is_asked_is_not_called() -> None:
    async def ask(request: ApprovalRequest) -> ApprovalAnswer:
        bench.manifest = replace(bench.manifest, held={("s", "write"): "the server changed it"})
        return await AutoApprover().ask(request)

    bench = Bench(policy=Policy(), approver=Asking(ask))
    outcome = await bench.call("write")
    assert (type_of(outcome), outcome.approval, bench.upstream.calls) == ("ToolPaused", ApprovalState.APPROVED, [])
    assert [(one.error_type, one.approver) for one in bench.outcomes] == [("ToolPaused", "application:auto")]


async def test_calls_above_the_limit_are_refused() -> None:
    bench = Bench(limits=CallLimits(calls_max=2))
    kinds = [type_of(await bench.call()) for _ in range(5)]
    assert kinds == ["", "", "RateLimit", "RateLimit", "RateLimit"]
    assert (bench.session.counters.calls, bench.session.counters.refused, len(bench.outcomes)) == (2, 3, 5)


@pytest.mark.parametrize(
    ("kind", "arguments", "name"),
    [
        ("UnknownTool", {"name": "reed"}, "UnknownTool"),
        ("ValidationError", {"name": "read", "wrong": 1}, "ValidationError s.read"),
        ("PolicyDenied", {"name": "write"}, "PolicyDenied s.write"),
    ],
)
async def test_of_many_refusals_the_first_are_recorded_and_the_others_counted_exactly(
    kind: str, arguments: dict[str, Any], name: str
) -> None:
    policy = Policy(layers=(configuration_layer(server_rules("s", [("read", "allow"), ("write", "deny")])),))
    bench = Bench(policy=policy, limits=CallLimits(calls_max=10_000))
    much = OWN_RECORDS_MAX + COUNTED_PER_RECORD + 7
    outcomes = [await bench.call(**arguments) for _ in range(much)]
    assert {(type_of(one), one.refused) for one in outcomes} == {(kind, True)}
    assert [one.error_type for one in bench.outcomes] == [kind] * OWN_RECORDS_MAX
    counted = [entry.refused for entry in bench.journal.entries if isinstance(entry, CallsRefusedRecord)]
    assert counted == [{name: COUNTED_PER_RECORD}]  # before the end: the process may be killed
    assert refused_record(bench.session.identity, bench.session.counters).refused == {name: 7}
    assert (bench.session.counters.calls, bench.session.counters.failed) == (much, much)
    assert bench.upstream.calls == []


async def test_what_somebody_was_asked_or_a_server_was_called_for_is_recorded_however_often() -> None:
    refusing = Bench(policy=Policy(), approver=DenyApprover())
    failing = Bench(UpstreamError("s", "no", for_guest="no"))
    for bench in (refusing, failing):
        outcomes = [await bench.call("write") for _ in range(OWN_RECORDS_MAX + 5)]
        assert {one.refused for one in outcomes} == {False}
        assert len(bench.outcomes) == OWN_RECORDS_MAX + 5
        assert refused_record(bench.session.identity, bench.session.counters).refused == {}


async def test_a_hundred_calls_at_once_respect_the_concurrency_limit() -> None:
    async def answer() -> JsonObject:
        await asyncio.sleep(0)
        return OK

    bench = Bench(answer, limits=CallLimits(concurrent_max=8))
    outcomes = await asyncio.gather(*(bench.call() for _ in range(100)))
    assert all(outcome.ok for outcome in outcomes)
    assert bench.upstream.running_max == 8
    assert len({record.call_id for record in bench.outcomes}) == len(bench.outcomes) == 100


@pytest.mark.req("A-056", "A-058")
async def test_an_upstream_that_ignores_its_timeout_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moonpool.pipeline.pipeline._TIMEOUT_GRACE_S", 0.0)
    bench = Bench(anyio.sleep_forever, timeout_s=0.01)
    outcome = await bench.call()
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.message) == ("Timeout", "server 's' did not answer 'read' within 0.01 s")


@pytest.mark.parametrize("name", ["read", "write"])
async def test_a_cancelled_call_is_recorded_once_and_stays_cancelled(name: str) -> None:
    started = asyncio.Event()

    async def answer() -> JsonObject:
        started.set()
        await anyio.sleep_forever()
        raise AssertionError

    bench = Bench(answer)
    task = asyncio.ensure_future(bench.call(name))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [record.error_type for record in bench.outcomes] == ["Cancelled"]
    assert bench.upstream.running == 0


async def test_cancelling_at_every_step_records_exactly_once() -> None:
    for steps in range(25):
        bench = Bench(lambda: _slow(3), policy=Policy())
        task = asyncio.ensure_future(bench.call("write"))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert len(bench.outcomes) == bench.session.counters.calls, steps
        assert bench.session.counters.pending == 0


async def _slow(steps: int) -> JsonObject:
    for _ in range(steps):
        await asyncio.sleep(0)
    return OK


async def test_a_bug_of_ours_is_an_outcome_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(ValueError(CANARY))
    outcome = await bench.call()
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.message) == (
        "Internal", "the broker failed on s.read (ValueError); this is a bug in Moonpool",
    )  # fmt: skip
    assert [record.error_type for record in bench.outcomes] == ["Internal"]
    assert CANARY not in caplog.text
    assert "FakeUpstream.call_tool" in caplog.text


async def test_a_server_that_is_gone_is_one_sentence() -> None:
    bench = Bench()
    bench.pipeline = CallPipeline({}, journal=bench.journal, redactor=Redactor.of_values({}))
    outcome = await bench.call()
    assert outcome.error is not None
    assert outcome.error.message == "server 's' is not connected any more; start a new session"


async def test_the_pipeline_with_the_real_journal_never_blocks_the_loop(tmp_path: Path) -> None:
    bench = Bench({"content": [{"type": "text", "text": "x" * 300_000 + CANARY}]})
    path = tmp_path / "private" / "audit.sqlite3"
    with blockbuster_ctx() as watch:
        for function in watch.functions.values():  # a commit into the page cache, see `store.journal`
            function.can_block_in("moonpool/store/journal.py", {"_commit_soon"})
        async with open_journal(path) as journal:
            bench.pipeline = CallPipeline(
                {"s": bench.upstream}, journal=journal, redactor=Redactor.of_values({"T": CANARY})
            )
            outcomes = await asyncio.gather(*(bench.call(name) for name in ("read", "write", "raed") * 5))
    assert Counter(type_of(outcome) for outcome in outcomes) == {"": 10, "UnknownTool": 5}
    rows = await anyio.to_thread.run_sync(lambda: list(read_rows(path)))
    assert Counter(row.kind for row in rows) == {"call_outcome": 15, "call_intent": 5}
    assert verify_rows(rows).ok


ONLY_DOCS = Rule(
    rule_id="docs", verdict=Verdict.ALLOW, tool="write", principal="local", languages=("bash",),
    when=(Condition("/path", Below(("docs",))),),
)  # fmt: skip
FILE = Policy(layers=(Layer(name=LayerName.ORGANISATION, rules=(ONLY_DOCS,), default=Verdict.DENY),))


@pytest.mark.parametrize(
    ("path", "language", "expected"),
    [
        pytest.param("docs/a", "bash", "", id="all as the rule says"),
        pytest.param("docs/../src/a", "bash", "PolicyDenied", id="another path"),
        pytest.param("docs/a", "python", "PolicyDenied", id="another language"),
    ],
)
async def test_policy_sees_arguments_principal_and_language(path: str, language: str, expected: str) -> None:
    bench = Bench(policy=FILE)
    bench.session = changed(bench.session, language=language)
    assert type_of(await bench.call("write", path=path)) == expected
    assert len(bench.upstream.calls) == (not expected)


@pytest.mark.parametrize("size", [1, 300_000], ids=["on the loop", "on a thread"])
async def test_a_call_with_two_names_for_one_argument_is_not_allowed_by_either(size: int) -> None:
    bench = Bench(policy=FILE)
    bench.session = changed(bench.session, language="bash")
    text = "x" * size
    assert type_of(await bench.call("write", path="docs/a", text=text)) == ""
    for more in ({"PATH": "docs/a"}, {"ｐath": "etc"}, {"deep": [{"a": 1, "A": 2}]}):
        assert type_of(await bench.call("write", path="docs/a", text=text, **more)) == "PolicyDenied"
    assert len(bench.upstream.calls) == 1


async def test_a_question_that_a_policy_file_asks_names_who_can_stop_it() -> None:
    rule = Rule(rule_id="careful", verdict=Verdict.ASK, tool="write", note="look at the path")
    reports: list[str] = []
    approver = DenyApprover(reports.append)
    bench = Bench(policy=Policy(layers=(Layer(name=LayerName.KEY, rules=(rule,)),)), approver=approver)
    outcome = await bench.call("write")
    assert outcome.error is not None
    assert "policy" not in outcome.error.message
    assert reports[0].endswith("to allow it: the owner of the key policy can change rule 'careful'")


async def test_what_only_reads_counts_as_no_change() -> None:
    """Annotated so by a trusted server, or a reading method of the protocol."""
    bench = Bench(policy=Policy(layers=(configuration_layer(server_rules("s", [("*", "allow")])),)))
    resource = tool(f"{RESERVED_PREFIX}list_resources")
    bench.manifest = Manifest(servers=(ServerListing(server_id="s", tools=(READ, WRITE, resource)),))
    for name, changing in (("read", 0), (resource.name, 0), ("write", 1)):
        assert type_of(await bench.call(name)) == ""
        assert bench.session.counters.changing == changing
