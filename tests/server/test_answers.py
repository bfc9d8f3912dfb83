"""What a model reads of an execution."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from moonpool.core.created_files import MadeFile, MadeFiles, Picture
from moonpool.core.envelope import Envelope, ExecutionError
from moonpool.server.mcp.answers import STDOUT_CHARS_MAX, execution_answer
from tables import every_row
from wire.test_pictures import GIF, jpeg, png


def envelope(data: Any = None, error: ExecutionError | None = None, **extras: Any) -> Envelope:
    members = {name: extras.pop(name) for name in ("note", "failed_calls") if name in extras}
    return Envelope(
        **members,
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


FAILED: dict[str, Any] = {
    "count": 2,
    "first": [{"tool": "s.t", "type": "E", "message": "no"}, {"tool": "s.u", "type": "F", "message": "not there"}],
}


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
        pytest.param(envelope(None, note="n"), {"ok": True, "data": None, "note": "n"}, id="with a note"),
        pytest.param(
            envelope(1, failed_calls=FAILED), {"ok": True, "data": 1, "failed_calls": FAILED}, id="with failed calls"
        ),
        pytest.param(
            envelope(error=ExecutionError(type="E", message="s.t: no (called at line 1)"), failed_calls=FAILED),
            {
                "ok": False,
                "error": {"type": "E", "message": "s.t: no (called at line 1)", "retryable": False},
                "failed_calls": {"count": 2, "first": [{"tool": "s.t", "type": "E"}, FAILED["first"][1]]},
            },
            id="a failed call that the error tells of",
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


@pytest.mark.req("C-027")
def test_long_output_is_cut_in_the_middle() -> None:
    answer = execution_answer(envelope(1, stdout="first" + "x" * 60_000 + "last"))
    assert answer.structured is not None
    shown = answer.structured["stdout"]

    assert isinstance(shown, str)
    assert len(shown) <= STDOUT_CHARS_MAX
    assert shown.startswith("first")
    assert shown.endswith("last")
    assert "characters left out" in shown


def test_a_file_is_named_with_the_one_place_where_it_can_be_had() -> None:
    file = MadeFile(name="out/a b.csv", size=3, path="/kept/out/a b.csv")
    made = replace(envelope(1), made=MadeFiles(files=(file,), more=2, note="why"))

    told = {"name": "out/a b.csv", "mime": "text/csv", "bytes": 3}
    more = {"more_files": 2, "files_note": "why"}
    assert execution_answer(made).structured == {"ok": True, "data": 1, "files": [{**told, "path": file.path}], **more}
    in_session = {**told, "uri": "moonpool://the%2Fone/out/a%20b.csv"}
    assert execution_answer(made, "the/one").structured == {"ok": True, "data": 1, "files": [in_session], **more}


def test_pictures_are_beside_the_text() -> None:
    picture = Picture(data=png(), mime="image/png", name="picture-1.png")
    answer = execution_answer(replace(envelope(1), pictures=(picture,)))
    assert (answer.structured, answer.pictures) == ({"ok": True, "data": 1}, (picture,))


DNA = "ACGT" * 200


@pytest.mark.req("X-07")
@every_row(
    ("made", "left"),
    [
        (envelope({"a": [base64.b64encode(png()).decode()]}), False),
        (envelope("data:image/jpeg;base64," + base64.b64encode(jpeg() + b"x" * 99).decode()), False),
        (envelope(1, stdout=f"see {base64.b64encode(GIF + b'x' * 99).decode()} here"), False),
        (envelope(1, stdout=base64.encodebytes(png(more=90_000)).decode()), False),
        (envelope(1, stderr=repr({"data": base64.b64encode(png()).decode()})), False),
        (envelope(error=ExecutionError(type="E", message=base64.b64encode(png()).decode())), False),
        (envelope(DNA), True),
        (envelope(1, stdout="/9j/ " + DNA), True),
    ],
)
def test_no_picture_stands_in_a_text_as_base64_and_other_texts_stay(made: Envelope, left: bool) -> None:
    answer = execution_answer(made)
    assert (DNA in answer.text) is left
    assert ("a picture as base64" in answer.text) is not left
    assert len(answer.text) < 2 * len(DNA)
    assert answer.structured == json.loads(answer.text)


def test_what_is_printed_after_a_picture_as_base64_stays() -> None:
    ends = set[str]()
    for more in (0, 1, 2, 900, 901, 902):
        shown = (base64.b64encode if more < 3 else base64.encodebytes)(png(more=more)).decode().rstrip("\n")
        ends.add(shown[-2:])
        told = json.loads(execution_answer(envelope(1, stdout=f"{shown}\n42\ntotal\ndone\n")).text)["stdout"]
        assert told.startswith("[a picture as base64, ")
        assert told.endswith("]\n42\ntotal\ndone\n")
    assert ends == {"==", "I=", "CC"}


def test_no_text_of_code_holds_up_the_host_while_it_is_read() -> None:
    """Quadratic time would be minutes; the net of this run ends it."""
    execution_answer(envelope(("/9j/" + "A" * 64 + "[... of ") * 55_000))
    failed = ExecutionError(type="E", message="\nE: " * 1999 + "\nEZ")
    for _ in range(25):
        execution_answer(envelope(error=failed, stderr="E: \n" * 16_000 + "x"))
