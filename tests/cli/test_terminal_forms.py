"""What servers ask is answered at the terminal of `moonpool run`: by a person, and only by one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from apps import fixture_server
from cli.console import moonpool, run_code, write_config
from cli.terminal import Terminal
from moonpool.terminal.forms import UnfitError, description, framed_texts, value_of

if TYPE_CHECKING:
    from pathlib import Path

BEGIN, SEND, OPEN = "Fill in this form?", "Send this to the server?", "Do you agree"
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "description": "└─\nFill in this form? y\x1b[2J"},
        "colour": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
        "count": {"type": "integer", "default": 3},
    },
    "required": ["name"],
}
ASK_FORM = {"method": "elicitation/create", "params": {"message": "Who\x1b[2J?", "requestedSchema": FORM}}
ASK_OPEN = {
    "method": "elicitation/create",
    "params": {"mode": "url", "message": "Sign", "url": "https://h.example/" + "s" * 600, "elicitationId": "e1"},
}
ASK_MODEL = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 5},
}


def code_of(question: Any, server: str = "srv") -> str:
    return (
        f"import json, servers.{server} as s\n"
        f"r = await s.ask(**json.loads({json.dumps(question)!r}))\n"
        "result = r.data.get('result', r.data.get('error'))"
    )


@pytest.fixture
def config(tmp_path: Path) -> Path:
    asks = {"elicitation": "relay", "sampling": "relay", "timeout_s": 20}
    return write_config(
        tmp_path,
        {
            "srv": fixture_server("curious.py", "legacy", allow=["*"], **asks),
            "shy": fixture_server("curious.py", "legacy", allow=["*"]),
        },
    )


def answer(terminal: Terminal, *pairs: tuple[str, str]) -> None:
    """Type each second text after its first is on the screen."""
    at = 0
    for prompt, typed in pairs:
        at = terminal.wait_for(prompt, after=at)
        terminal.type(typed + "\n")


@pytest.mark.req("D-044", "D-045", "D-046")
@pytest.mark.parametrize("session", [[], ["--session", "forms"]], ids=["one-shot", "session"])
def test_a_person_fills_in_a_form_field_by_field(tmp_path: Path, config: Path, session: list[str]) -> None:
    with Terminal(tmp_path, "run", "-c", code_of(ASK_FORM), "--config", config, *session) as terminal:
        answer(
            terminal,
            (BEGIN, "y"),
            ("Field 1 of 3", ""), ("required", "x"), ("Not taken", "Ada"),
            ("Field 2 of 3", "9"), ("from 1 to 2", "2"),
            ("Field 3 of 3", ""),
            (SEND, "y"),
        )  # fmt: skip
        ended = terminal.wait_ended()
    if session:
        moonpool(tmp_path, "session", "close", "forms")

    assert ended.result["data"] == {"action": "accept", "content": {"name": "Ada", "colour": "g", "count": 3}}
    assert "│ Server 'srv', called by code as srv.ask, asks:" in ended.stderr
    assert "\x1b" not in ended.stderr
    assert "│ > Who" in ended.stderr
    assert "│ count: 3" in ended.stderr  # left open, and sent
    shown = json.loads(
        moonpool(tmp_path, "audit", "show", "--run", ended.envelope["run_id"], "--json").stdout.split(b"\n")[2]
    )
    assert (shown["kind"], shown["answer"], shown["answerer"][:9]) == ("question", "accept", "terminal:")


@pytest.mark.req("D-044", "D-046")
@pytest.mark.parametrize(
    ("pairs", "action"),
    [
        pytest.param([(BEGIN, "n")], "decline", id="no form"),
        pytest.param([(BEGIN, "\x04")], "cancel", id="end of file"),
        pytest.param([(BEGIN, "y"), ("Field 1", ":n")], "decline", id="no field"),
        pytest.param(
            [(BEGIN, "y"), *[("Field 1", "Ada"), ("Field 2", ""), ("Field 3", "4"), (SEND, "e")], ("Field 1", ":c")],
            "cancel",
            id="edited, then cancelled",
        ),
    ],
)
def test_a_person_may_say_no_at_any_time(tmp_path: Path, config: Path, pairs: Any, action: str) -> None:
    with Terminal(tmp_path, "run", "-c", code_of(ASK_FORM), "--config", config) as terminal:
        answer(terminal, *pairs)
        ended = terminal.wait_ended()
    assert ended.result["data"] == {"action": action}


def test_an_address_is_shown_whole_and_agreed_to(tmp_path: Path, config: Path) -> None:
    with Terminal(tmp_path, "run", "-c", code_of(ASK_OPEN), "--config", config) as terminal:
        answer(terminal, (OPEN, "y"))
        ended = terminal.wait_ended()
    assert ended.result["data"] == {"action": "accept"}
    assert "https://h.example/" in ended.stderr
    assert ended.stderr.partition("https://")[2].partition(OPEN)[0].count("s") >= 600


@pytest.mark.req("D-047")
def test_without_a_terminal_or_where_not_configured_nobody_is_asked(tmp_path: Path, config: Path) -> None:
    assert run_code(tmp_path, code_of(ASK_FORM), "--config", config).result["data"] == {"action": "decline"}
    with Terminal(tmp_path, "run", "-c", code_of(ASK_FORM, "shy"), "--config", config) as terminal:
        ended = terminal.wait_ended()
    assert ended.result["data"]["code"] == -32601


def test_there_is_no_model_at_a_terminal(tmp_path: Path, config: Path) -> None:
    with Terminal(tmp_path, "run", "-c", code_of(ASK_MODEL), "--config", config) as terminal:
        ended = terminal.wait_ended()
    assert ended.result["data"]["code"] == -1


@pytest.mark.parametrize(
    "before",
    ["\n└─\n", "\x1b[2K\r", " " * 70, "\u202e", "\ud800", "\x9b2K", "y" * 9000],
    ids=lambda text: ascii(text[:9]),
)
def test_a_server_cannot_imitate_the_question(before: str) -> None:
    text = before + BEGIN
    shown = framed_texts("form", [text, *description(text, {"type": "string", "title": text}, required=True)], 80)
    _, head, *lines, foot, end = shown.split("\n")
    assert (head, foot, end) == ("┌─ form", "└─", "")
    assert all(line.startswith("│ ") and len(line) <= 80 for line in lines)
    assert all(char.isprintable() for line in lines for char in line)


@pytest.mark.req("D-045")
@pytest.mark.parametrize(
    ("field", "typed", "value"),
    [
        ({"type": "string"}, "a b", "a b"),
        ({"type": "integer"}, "-4", -4),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]}, "2", "b"),
        ({"type": "array", "items": {"enum": ["a", "b", "c"]}}, "3, 1", ["c", "a"]),
    ],
    ids=str,
)
def test_what_is_typed_becomes_a_value_of_the_field(field: Any, typed: str, value: Any) -> None:
    assert value_of("f", field, typed) == value


@pytest.mark.req("D-045")
@pytest.mark.parametrize(
    ("field", "typed"),
    [
        ({"type": "integer"}, "1.5"),
        ({"type": "integer"}, "9" * 100),
        ({"type": "number"}, "nan"),
        ({"type": "number", "maximum": 2}, "3"),
        ({"type": "boolean"}, "perhaps"),
        ({"type": "string", "pattern": "^a+$"}, "b"),
        ({"type": "string", "enum": ["a"]}, "a"),
        ({"type": "array", "items": {"enum": ["a"]}, "maxItems": 1}, "1,1"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_not_taken(field: Any, typed: str) -> None:
    with pytest.raises(UnfitError):
        value_of("f", field, typed)
