"""What a person judges: no member of it can be pushed out of sight, and nothing in it is unseen."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moonpool.core.phrases import printable
from moonpool.features.approvals.model import ApprovalRequest
from moonpool.pipeline import readable_json as readable
from moonpool.pipeline.readable_json import ARGUMENTS_CHARS_MAX, NOT_ALL, all_but_hidden, readable_json
from moonpool.server.mcp.approver import ElicitingApprover
from moonpool.terminal.approver import question

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject, JsonValue

LONG = "lorem ipsum " * 5_000


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"a": LONG, "to": "evil@example.org", "z": LONG}, id="between long texts"),
        pytest.param({"a": LONG, "o": {"to": "evil@example.org"}, "z": LONG}, id="inside, between long texts"),
        pytest.param({"a": [LONG] * 500, "to": "evil@example.org", "z": [{"k": 1}] * 5000}, id="between long lists"),
        pytest.param(
            {"a": {f"k{i}": i for i in range(900)}, "to": "evil@example.org", "z": LONG}, id="behind many members"
        ),
        pytest.param({"a" * 9000: 1, "to": "evil@example.org", "z" * 9000: 1}, id="between long names"),
        pytest.param({"a": "\u202e\x1b" * 3000, "to": "evil@example.org", "z": "\x07" * 3000}, id="between escapes"),
    ],
)
def test_no_member_is_pushed_out_of_sight(arguments: JsonObject) -> None:
    shown = readable_json(arguments, ARGUMENTS_CHARS_MAX)
    assert '"to": "evil@example.org"' in shown
    assert shown.startswith(NOT_ALL)
    assert len(shown) <= ARGUMENTS_CHARS_MAX


def test_what_fits_is_shown_as_it_is() -> None:
    arguments: JsonObject = {"a": [1, {"b": "c"}], "d": None, "e": "x" * 3500}
    assert json.loads(readable_json(arguments, ARGUMENTS_CHARS_MAX)) == arguments


@given(text=st.text(st.characters(categories=("Cc", "Cf", "Co", "Zs", "Mn", "L", "So"))))
def test_what_nobody_sees_is_escaped_so_that_it_is_still_the_same_json(text: str) -> None:
    shown = readable_json({text: [text]}, ARGUMENTS_CHARS_MAX)
    assert json.loads(shown) == {text: [text]}
    assert shown.replace("\n", "").isprintable()


def test_a_text_cannot_say_that_something_is_left_out() -> None:
    shown = readable_json({"a": 'x" …[5 characters left out]… "y', "b": LONG}, ARGUMENTS_CHARS_MAX)
    assert r"x\" …[5 characters left out]… \"y" in shown
    assert len(re.findall(r'(?<!\\)" …\[', shown)) == 1


def test_what_is_too_much_even_so_says_so_first() -> None:
    shown = readable_json({f"member {i}": i for i in range(5000)}, ARGUMENTS_CHARS_MAX)
    assert shown.startswith(NOT_ALL)
    assert "characters left out" in shown
    assert len(shown) <= ARGUMENTS_CHARS_MAX


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=12), inner, max_size=8),
    max_leaves=40,
)


@given(values, st.integers(200, 600))
@settings(max_examples=80, deadline=None)
def test_it_fits_and_holds_nothing_unseen(value: JsonValue, length_max: int) -> None:
    shown = readable_json(value, length_max)
    assert len(shown) <= length_max
    assert printable(shown) == shown


@pytest.mark.parametrize(
    "hidden",
    ["\ufe0f", "\U000e0100", "\u3164", "\uffa0", "\u2800", "\u034f", "\u180b", "\u2d7f", "\ufffc", "\U00016fe4"],
)
def test_what_nobody_sees_is_written_out(hidden: str) -> None:
    escape = hidden.encode("unicode_escape").decode()
    assert printable(f"safe{hidden}.txt") == f"safe{escape}.txt"
    assert f"safe{escape}" in question(_request(f'{{"path": "safe{hidden}"}}'), 80)


@pytest.mark.anyio
async def test_neither_terminal_nor_client_cuts_it_a_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = readable_json({"a": LONG, "to": "evil@example.org", "z": LONG}, ARGUMENTS_CHARS_MAX)
    assert len(arguments) > ARGUMENTS_CHARS_MAX // 2
    approver, messages = ElicitingApprover(), list[str]()

    class Person:
        def can(self, method: str, mode: str = "") -> bool:
            return bool(method or mode)

        async def ask(self, method: str, params: JsonObject) -> JsonObject:
            messages.append(f"{method}: {params['message']}")
            return {"action": "decline"}

    monkeypatch.setattr(approver.bindings, "asker_of", {"run_1": Person()}.get)
    await approver.ask(_request(arguments))
    assert arguments in messages[0]
    assert "evil@example.org" in question(_request(arguments), 200).replace("\n│ ", "")


def _request(arguments: str) -> ApprovalRequest:
    return ApprovalRequest(
        request_id="a", run_id="run_1", principal="local:a", server_id="hub", tool_name="send", arguments=arguments,
        arguments_digest="sha256:0", reason="it sends",
    )  # fmt: skip


def test_what_is_too_long_to_be_shown_is_not_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """16 MB of characters that nobody sees take seconds."""
    written: list[int] = []

    def write(text: str) -> str:
        written.append(len(text))
        return "?"

    monkeypatch.setattr(readable, "_written", write)
    value: JsonValue = {"a": "\u202e" * 50_000}
    assert all_but_hidden(value, 40_000) == ""
    assert readable_json(value, 4000).startswith(NOT_ALL)
    assert sum(written) < 10_000
