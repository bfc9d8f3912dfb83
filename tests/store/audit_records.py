"""Audit records for the tests of this room."""

from __future__ import annotations

from moonpool.core.audit_records import (
    CallIntentRecord,
    CallOutcomeRecord,
    ExecutionStartRecord,
    FileTransferRecord,
    ServerRequestRecord,
)


def start(run_id: str = "r") -> ExecutionStartRecord:
    return ExecutionStartRecord(
        run_id=run_id, trace_id="t", at="2026-11-21T00:00:00Z", principal="p", session_id="s", language="python",
        code_digest="sha256:0", environment_id="base", manifest_digest="sha256:1",
    )  # fmt: skip


def intent(call_id: int = 1, run_id: str = "r") -> CallIntentRecord:
    return CallIntentRecord(
        run_id=run_id, trace_id="t", call_id=call_id, at="2026-11-21T00:00:00Z", code_digest="sha256:0",
        server_id="git", tool_name="push", tool_digest="sha256:2", arguments_digest="sha256:3", verdict="allow",
        rule_id="x", approval="NOT_REQUIRED",
    )  # fmt: skip


def outcome(call_id: int = 1, run_id: str = "r") -> CallOutcomeRecord:
    return CallOutcomeRecord(
        run_id=run_id, trace_id="t", call_id=call_id, at="2026-11-21T00:00:00Z", principal="p", session_id="s",
        code_digest="sha256:0", server_id="git", tool_name="push", tool_digest="sha256:2", arguments_digest="sha256:3",
        verdict="allow", rule_id="x", approval="NOT_REQUIRED", approver="", duration_ms=1.5, result_bytes=10,
        result_digest="sha256:4", error_type="", redactions={"TOKEN": 2}, warnings=("w",),
    )  # fmt: skip


def transfer(run_id: str = "transfer_1") -> FileTransferRecord:
    return FileTransferRecord(
        run_id=run_id, at="2026-11-21T00:00:00Z", principal="p", session_id="s", direction="in", what="file",
        path="data/in.csv", bytes=10, digest="sha256:5", error_type="",
    )  # fmt: skip


def asked(run_id: str = "r") -> ServerRequestRecord:
    return ServerRequestRecord(
        run_id=run_id, trace_id="t", at="2026-11-21T00:00:00Z", principal="p", session_id="s", code_digest="sha256:0",
        runs=(run_id,), server_id="git", tool_name="git.push", method="elicitation/create", mode="form",
        question_digest="sha256:8", verdict="ask", rule_id="default", answer="accept", answerer="terminal:me",
        approver="", why="", duration_ms=900.5,
    )  # fmt: skip
