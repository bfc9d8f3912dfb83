"""What `moonpool run` prints on a terminal: a few lines, within its width, that no text of code or servers can fake."""

from __future__ import annotations

import json
import os
import pty
import termios
from typing import TYPE_CHECKING, Any

import pytest

from cli.console import raw_server, write_config
from cli.terminal import Terminal
from moonpool.cli.run_view import RunView
from tables import every_row

if TYPE_CHECKING:
    from pathlib import Path

LINE: dict[str, Any] = {"run_id": "run_1", "duration_ms": 1234, "approval_state": "NOT_REQUIRED"}
BLANK = " " * 9
MORE = "… 79 more lines; --json prints all of it"
END = "ok       1.2 s · run_1"


@pytest.mark.req("H-018")
def test_a_person_reads_a_few_lines_and_a_program_its_line(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"srv": raw_server("good", allow=["*"])})
    code = (
        "import servers.srv as s\nfor n in range(3):\n    await s.echo(a=n)\n"
        "print('half a line', end='')\nresult = {'text': '\\x1b[2J\\u202eok', 'many': list(range(12))}"
    )
    run = ("run", "-c", code, "--config", config)
    with Terminal(tmp_path, *run, columns=60, all_shown=True) as terminal:
        ended = terminal.wait_ended()
    label = "\x1b[1mresult   \x1b[0m"
    above, _, shown = ended.stderr.partition(label)
    assert (ended.exit_code, above) == (0, "half a line\n")
    *result, calls, end = shown.splitlines()
    assert result == ['{"text": "\\u001b[2J\\u202eok",', f'{" " * 10}"many": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]}}']
    assert calls == "\x1b[1mcalls    \x1b[0m3: srv.echo x3"
    assert end.startswith("\x1b[1;32mok       \x1b[0m")

    with Terminal(tmp_path, *run, "--json", all_shown=True) as terminal:
        ended = terminal.wait_ended()
    assert json.loads(ended.stderr.splitlines()[-1].removeprefix("half a line"))["result"]["ok"] is True


def test_no_colour_where_it_is_not_wanted_and_a_failure_is_red(tmp_path: Path) -> None:
    for more, shown in (
        ({"NO_COLOR": "1"}, "error    ValueError: no"),
        ({"TERM": "dumb"}, "error    ValueError: no"),
        ({}, "\x1b[1;31merror    \x1b[0mValueError: no"),
    ):
        with Terminal(tmp_path, "run", "-c", "raise ValueError('no')", all_shown=True, **more) as terminal:
            ended = terminal.wait_ended()
        *_, error, end = ended.stderr.splitlines()
        assert (ended.exit_code, error) == (1, shown)
        assert "failed   " in end


def viewed(result: dict[str, Any], journal: Path, columns: int = 60) -> list[str]:
    """The lines of a run with this result, without colour."""
    ours, theirs = pty.openpty()
    try:
        termios.tcsetwinsize(theirs, (24, columns))
        line = {**LINE, "result": {"ok": True, "data": None, "metrics": {}, **result}}
        return RunView(theirs, journal)(json.dumps(line).encode()).decode().splitlines()
    finally:
        os.close(ours)
        os.close(theirs)


def test_no_line_is_wider_than_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    texts = ("words between blanks " * 5, "x" * 200, "字" * 60, "\u202e" * 40, json.dumps({"k" * 40: ["v"] * 40}))
    for columns in (20, 33, 200):
        for text in texts:
            for result in (
                {"data": text},
                {"data": {"a": text}},
                {"note": text},
                {"error": {"type": text, "message": text}},
            ):
                lines = viewed({"ok": "error" not in result, **result}, tmp_path / "none", columns)
                widths = [sum(2 if char == "字" else 1 for char in line) for line in lines]
                assert max(widths) <= columns, (columns, lines)
                assert all(
                    line.startswith((" " * 9, "result   ", "note     ", "error    ", "ok ", "failed "))
                    for line in lines
                )


@every_row(
    ("result", "shown"),
    [
        pytest.param({}, [END], id="no result is no line"),
        pytest.param({"data": 42}, ["result   42", END], id="a value"),
        pytest.param({"data": "one\ntwo"}, ["result   one", "         two", END], id="a text has lines"),
        pytest.param(
            {"data": "x\r\x1b]0;t\x07\nok       9 s"},
            ["result   x\\r\\x1b]0;t\\x07", "         ok       9 s", END],
            id="a text that would redraw the screen",
        ),
        pytest.param(
            {"data": "\n".join(map(str, range(99)))},
            [
                "result   0",
                *(f"{BLANK}{n}" for n in range(1, 20)),
                f"{BLANK}… 79 more lines; --json prints all of it",
                END,
            ],
            id="a long text",
        ),
        pytest.param({"data": "a" * 70}, ["result   " + "a" * 51, "         " + "a" * 19, END], id="a wide text"),
        pytest.param({"metrics": {"tool_calls": 1200}}, ["calls    1,200", END], id="calls without a journal"),
        pytest.param(
            {"failed_calls": {"count": 7, "first": [{"tool": "s.t", "type": "ToolError", "message": "no\x1b[1m"}]}},
            ["failed   s.t: ToolError: no\\x1b[1m", "         6 more", END],
            id="calls that failed",
        ),
        pytest.param(
            {"files": [{"name": "a.png", "mime": "image/png", "bytes": 2048, "path": "/x/a.png"}], "more_files": 59},
            ["files    a.png (2,048 bytes, image/png, /x/a.png)", "         59 more", END],
            id="files",
        ),
        pytest.param(
            {"files": [{"name": f"{n}", "bytes": 1} for n in range(12)], "more_files": 3},
            ["files    0 (1 bytes)", *(f"{BLANK}{n} (1 bytes)" for n in range(1, 10)), f"{BLANK}5 more", END],
            id="more files than lines",
        ),
        pytest.param(
            {"metrics": {"tool_calls": 3, "dry_run": True, "planned_calls": 2}},
            ["calls    3", "plan     a dry run; calls planned and not made: 2", END],
            id="a rehearsal",
        ),
        pytest.param({"note": "look there"}, ["note     look there", END], id="a note"),
        pytest.param({"files": "nonsense", "failed_calls": 3}, [END], id="members that are something else"),
        pytest.param({"files": [{"nothing": 1}]}, None, id="a view that fails is the line itself"),
    ],
)
def test_each_line_says_one_thing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: dict[str, Any], shown: list[str] | None
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    lines = viewed(result, tmp_path / "none")
    assert lines == shown if shown is not None else json.loads(lines[0])["run_id"] == "run_1"
