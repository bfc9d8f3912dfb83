"""A preview shows the calls of the saved actions that code uses, also of those that these use."""

from __future__ import annotations

from typing import Any

import pytest

from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition
from moonpool.features.library.model.actions import read_action
from moonpool.features.library.model.bounds import ACTION_FILE
from moonpool.features.library.model.entries import Library, LibrarySource
from moonpool.features.preview import service as module
from moonpool.features.preview.model import Preview
from moonpool.features.preview.service import preview_code

SEND: dict[str, Any] = {
    "name": "send",
    "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
}
SERVERS = (ServerListing(server_id="mail", tools=(ToolDefinition(server_id="mail", name="send", raw=SEND),)),)
TELL = 'import servers.mail as mail\nasync def run():\n    "Tell the boss."\n    await mail.send(to="boss")'


def preview(code: str, **actions: str) -> Preview:
    entries = [
        read_action(LibrarySource(kind="action", name=name.replace("__", "."), files={ACTION_FILE: text.encode()}))
        for name, text in actions.items()
    ]
    return preview_code(code.encode(), Manifest(servers=SERVERS, library=Library(entries=tuple(entries))))


def calls(found: Preview) -> list[tuple[str, int, str]]:
    return [(one.within, one.line, one.tool) for one in found.calls]


@pytest.mark.req("I-104")
@pytest.mark.parametrize(
    "code",
    [
        "from actions.work.tell import run; await run()",
        "from actions.work.tell import run as tell; await tell()",
        "import actions.work.tell; await actions.work.tell.run()",
        "import actions; await actions.work.tell.run()",
        "import actions as a; await a.work.tell.run()",
        "from actions import work; await work.tell.run()",
        "from actions.work import tell; await tell.run()",
        "from actions.work.tell import *",
        "import importlib; m = importlib.import_module('actions.work.tell'); await m.run()",
        "import actions.work as w; await getattr(w, 'tell').run()",
        "async def main():\n    from actions.work.tell import run\n    await run()",
    ],
)
def test_the_calls_of_an_action_are_the_codes(code: str) -> None:
    found = preview(code, work__tell=TELL)
    assert calls(found) == [("actions.work.tell", 4, "send")]
    assert not found.has_errors
    assert found.to_json()["calls"][0]["within"] == "actions.work.tell"  # pyright: ignore[reportIndexIssue, reportCallIssue, reportArgumentType, reportOptionalSubscript]


def test_nested_and_circular_actions_are_read_once() -> None:
    outer = "from actions.work.tell import run as tell\ndef run():\n    'x'\n    from actions.outer import run"
    found = preview(
        "import servers.mail as m\nawait m.send(to='x')\nfrom actions.outer import run", work__tell=TELL, outer=outer
    )
    assert calls(found) == [("", 2, "send"), ("actions.work.tell", 4, "send")]
    assert [one.path for one in found.imports] == ["servers.mail", "actions.outer.run"]
    assert "within" not in found.calls[0].to_json()


def test_an_action_that_is_not_used_is_not_read() -> None:
    assert calls(preview("import actions", work__tell=TELL)) == []


def test_what_is_wrong_in_an_action_is_told_with_its_place() -> None:
    wrong = TELL.replace("to=", "who=")
    [finding] = preview("from actions.tell import run", tell=wrong).findings
    assert (finding.within, finding.line, finding.kind) == ("actions.tell", 4, "ValidationError")


@pytest.mark.parametrize(
    "code", ["from actions.work.tel import run", "import actions.work.tel", "import actions; actions.work.tel"]
)
def test_an_action_that_there_is_not_is_an_error(code: str) -> None:
    [finding] = preview(code, work__tell=TELL).findings
    assert finding.kind == "UnknownAction"
    assert "'actions.work.tel'; near names: actions.work.tell" in finding.message


def test_without_actions_the_name_is_the_codes_own() -> None:
    found = preview("from actions.work import thing\nimport actions\nactions.x.y()")
    assert (found.findings, found.imports) == ((), ())


def test_what_is_read_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_READ_MAX", 2)
    found = preview("import actions\n" + "".join(f"actions.a{n}\n" for n in range(3)), a0=TELL, a1=TELL, a2=TELL)
    assert [one.within for one in found.calls] == ["actions.a0", "actions.a1"]
    assert any("further ones" in one.message for one in found.findings)
    monkeypatch.setattr(module, "CALLS_LISTED_MAX", 3)
    long = TELL + "\n    await mail.send(to='x')" * 5
    found = preview("from actions.a0 import run", a0=long)
    assert (len(found.calls), found.left_out) == (3, 3)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        pytest.param("from actions.tel_{} import run", "near names: actions.tell", id="actions"),
        pytest.param("import servers.mial{}", "did you mean server mail?", id="servers"),
        pytest.param("from servers.mail import sennd{}", "did you mean mail.send?", id="tools"),
    ],
)
def test_near_names_are_looked_up_for_the_first_misses_only(line: str, hint: str) -> None:
    found = preview("\n".join(line.format(number) for number in range(30)), tell=TELL)
    assert len(found.findings) == 30
    assert sum(hint in one.message for one in found.findings) == 20


def test_near_parameters_are_looked_up_for_the_first_calls_only() -> None:
    found = preview("import servers.mail\n" + 'await servers.mail.send(too="a")\n' * 30)
    assert sum("(you gave 'too')" in one.message for one in found.findings) == 20
