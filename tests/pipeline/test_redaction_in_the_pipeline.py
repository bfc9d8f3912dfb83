"""On the pipeline, secrets are found by their shape in results, errors, questions, records and logs."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from moonpool.core.calls import ApprovalState
from moonpool.pipeline.approval import ScriptedApprover
from moonpool.pipeline.pipeline import CallPipeline
from moonpool.policy import Policy
from moonpool.redaction.redactor import Redactor
from moonpool.upstreams.base import UpstreamError
from pipeline.secret_samples import PRIVATE_KEY, TOKENS
from pipeline.test_pipeline import ALLOW_ALL, Bench

if TYPE_CHECKING:
    from moonpool.pipeline.approval import Approver

pytestmark = pytest.mark.anyio


def bench_of(
    answer: Any = None, *, personal: tuple[str, ...] = (), approver: Approver | None = None, policy: Policy = ALLOW_ALL
) -> Bench:
    bench = Bench(answer, approver=approver, policy=policy)
    redactor = Redactor.of({}, personal=personal)
    bench.pipeline = CallPipeline({"s": bench.upstream}, journal=bench.journal, redactor=redactor)
    return bench


@pytest.mark.parametrize("kind", TOKENS)
@pytest.mark.req("H-022", "K-013")
async def test_each_kind_is_redacted_in_texts_resources_and_structured_content(kind: str) -> None:
    secret = TOKENS[kind]
    answer = {
        "content": [
            {"type": "text", "text": f"here: {secret}\n"},
            {"type": "resource", "resource": {"uri": "x:y", "text": secret}},
        ],
        "structuredContent": {"deep": [{"a": secret}]},
    }
    bench = bench_of(answer)
    outcome = await bench.call("write")
    marker = f"[REDACTED:{kind}]"
    assert outcome.raw == {
        "content": [
            {"type": "text", "text": f"here: {marker}\n"},
            {"type": "resource", "resource": {"uri": "x:y", "text": marker}},
        ],
        "structuredContent": {"deep": [{"a": marker}]},
    }
    assert (outcome.redactions, bench.outcomes[0].redactions) == (3, {kind: 3})


@pytest.mark.req("H-022")
async def test_a_secret_is_redacted_in_an_error_its_record_and_the_operators_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = bench_of(UpstreamError("s", f"failed with DB_PASSWORD=hunter2 and {TOKENS['github_pat']}"))
    with caplog.at_level(logging.WARNING):
        outcome = await bench.call("write")
    assert outcome.error is not None
    told = outcome.error.message + caplog.text + str(bench.journal.entries)
    assert "hunter2" not in told
    assert TOKENS["github_pat"] not in told
    assert "DB_PASSWORD=[REDACTED:password]" in caplog.text


@pytest.mark.req("H-022")
async def test_a_question_shows_the_ends_of_what_looks_like_a_secret() -> None:
    approver = ScriptedApprover([ApprovalState.REJECTED])
    bench = bench_of(approver=approver, policy=Policy())
    await bench.call("write", password="geheim", nested={"api_key": "abcdefgh", "note": PRIVATE_KEY}, limit=5)
    (request,) = approver.requests
    assert request.arguments.startswith("(not all of it is shown)")
    assert '"password": "g" …[4 characters hidden]… "m"' in request.arguments
    assert '"api_key": "ab" …[4 characters hidden]… "gh"' in request.arguments
    assert PRIVATE_KEY[60:120] not in request.arguments
    assert "-----BEGIN" in request.arguments
    assert json.loads(request.whole)["nested"]["note"] == PRIVATE_KEY
    assert request.cut


async def test_the_arguments_themselves_reach_the_server_whole() -> None:
    bench = bench_of()
    await bench.call("write", password="geheim")
    assert bench.upstream.calls == [("write", {"password": "geheim"})]


@pytest.mark.req("H-022")
async def test_personal_data_goes_only_where_it_is_chosen() -> None:
    answer = {"content": [{"type": "text", "text": "jo@example.org, 4111 1111 1111 1111"}]}
    as_it_is = await bench_of(answer).call("write")
    chosen = await bench_of(answer, personal=("email", "card")).call("write")
    assert as_it_is.raw == answer
    assert chosen.raw == {"content": [{"type": "text", "text": "[REDACTED:email], [REDACTED:card]"}]}
