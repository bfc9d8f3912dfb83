"""What a model reads of an execution."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moonpool.core.envelope import Envelope, ExecutionError
from moonpool.faces.mcp.answers import STDOUT_CHARS_MAX, execution_answer


def envelope(data: Any = None, error: ExecutionError | None = None, **extras: Any) -> Envelope:
    return Envelope(
        run_id="run_1",
        trace_id="t",
        tool_name="n",
        tool_version="1",
        input_digest="sha256:0",
        sandbox_image="base",
        duration_ms=1,
        data=data,
        error=error,
        metrics={"tool_calls": 2},
        extras={"stdout": "", "stderr": "", "exit_code": 0, **extras},
    )


@pytest.mark.req("H-043", "C-019")
@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(envelope([1]), {"ok": True, "data": [1]}, id="data only"),
        pytest.param(envelope(None), {"ok": True, "data": None}, id="nothing"),
        pytest.param(envelope(1, stdout="a\n"), {"ok": True, "data": 1, "stdout": "a\n"}, id="with output"),
        pytest.param(envelope({"a": 1}, stdout='{"a": 1}\n'), {"ok": True, "data": {"a": 1}}, id="printed as JSON"),
        pytest.param(envelope(None, stdout="null"), {"ok": True, "data": None, "stdout": "null"}, id="printed null"),
        pytest.param(envelope(1, stderr="warn"), {"ok": True, "data": 1, "stderr": "warn"}, id="with warnings"),
        pytest.param(
            envelope(error=ExecutionError(type="E", message="m"), stderr="trace", exit_code=1),
            {"ok": False, "error": {"type": "E", "message": "m", "retryable": False}, "stderr": "trace"},
            id="failure",
        ),
        pytest.param(
            envelope(
                error=ExecutionError(type="E", message="m; do this"),
                stderr='earlier\nTraceback:\n  File "<code>", line 1\n    f()\npack.mod.E: m\nlater\n',
            ),
            {
                "ok": False,
                "error": {"type": "E", "message": "m; do this", "retryable": False},
                "stderr": 'earlier\nTraceback:\n  File "<code>", line 1\n    f()\nlater\n',
            },
            id="the message stands once",
        ),
        pytest.param(
            envelope(error=ExecutionError(type="E", message="m\nn"), stderr="E: m\nn\n    at code.js:1\n"),
            {
                "ok": False,
                "error": {"type": "E", "message": "m\nn", "retryable": False},
                "stderr": "    at code.js:1\n",
            },
            id="a message of two lines, in Node",
        ),
        pytest.param(
            envelope(error=ExecutionError(type="E", message="m"), stderr="E: m and more\nEE: m\n"),
            {
                "ok": False,
                "error": {"type": "E", "message": "m", "retryable": False},
                "stderr": "E: m and more\nEE: m\n",
            },
            id="what says more stays",
        ),
        pytest.param(
            envelope(error=ExecutionError(type="E", message="m"), exit_code=137),
            {"ok": False, "error": {"type": "E", "message": "m", "retryable": False}, "exit_code": 137},
            id="killed",
        ),
    ],
)
def test_the_answer_is_lean_and_the_same_twice(made: Envelope, expected: dict[str, Any]) -> None:
    answer = execution_answer(made)

    assert answer.structured == json.loads(answer.text) == expected
    assert answer.is_error is not expected["ok"]


def test_identity_travels_beside_the_answer() -> None:
    meta = execution_answer(envelope(1)).meta
    assert meta is not None
    told = meta["moonpool/envelope"]

    assert isinstance(told, dict)
    assert "result" not in told
    assert (told["run_id"], told["metrics"]) == ("run_1", {"duration_ms": 1, "tool_calls": 2})


def test_long_output_is_cut_in_the_middle() -> None:
    answer = execution_answer(envelope(1, stdout="first" + "x" * 60_000 + "last"))
    assert answer.structured is not None
    shown = answer.structured["stdout"]

    assert isinstance(shown, str)
    assert len(shown) <= STDOUT_CHARS_MAX
    assert shown.startswith("first")
    assert shown.endswith("last")
    assert "characters left out" in shown
