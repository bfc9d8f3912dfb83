"""A preview shows the calls of a skill's modules that code imports, and of those that these import."""

from __future__ import annotations

from typing import Any

import pytest

from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition
from moonpool.features.library.model.actions import read_action
from moonpool.features.library.model.bounds import ACTION_FILE
from moonpool.features.library.model.entries import Library, LibrarySource
from moonpool.features.library.model.skills import read_skill, skill_source
from moonpool.features.preview.model import Preview
from moonpool.features.preview.service import preview_code

SEND: dict[str, Any] = {
    "name": "send",
    "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
}
SERVERS = (ServerListing(server_id="mail", tools=(ToolDefinition(server_id="mail", name="send", raw=SEND),)),)
CALL = 'import servers.mail as mail\nasync def tell():\n    await mail.send(to="boss")\n'
ACTION = 'from skills.class_.scripts.tell import tell\nasync def run():\n    "Tell."\n    await tell()\n'


def preview(code: str, **scripts: str) -> Preview:
    head = b"---\nname: class\ndescription: d\n---\n"
    files = {f"scripts/{name}.py": text.encode() for name, text in scripts.items()}
    skill = read_skill(skill_source({"SKILL.md": head, "notes.txt": b"", **files}, place="class"))
    action = read_action(LibrarySource(kind="action", name="tell", files={ACTION_FILE: ACTION.encode()}))
    return preview_code(code.encode(), Manifest(servers=SERVERS, library=Library(entries=(skill, action))))


def calls(found: Preview) -> list[tuple[str, int, str]]:
    return [(one.within, one.line, one.tool) for one in found.calls]


@pytest.mark.parametrize(
    "code",
    [
        "from skills.class_.scripts.tell import tell; await tell()",
        "from skills.class_.scripts import tell; await tell.tell()",
        "import skills.class_.scripts.tell as t; await t.tell()",
        "import skills; await skills.class_.scripts.tell.tell()",
    ],
)
def test_the_calls_of_a_skill_s_module_are_the_codes(code: str) -> None:
    found = preview(code, tell=CALL)
    assert calls(found) == [("skills.class_.scripts.tell", 3, "send")]
    assert not found.has_errors


@pytest.mark.parametrize(
    "line", ["from . import tell", "from .tell import tell", "from ..scripts.tell import tell", "from .tell import *"]
)
def test_modules_that_a_module_imports_are_read_too(line: str) -> None:
    found = preview("import skills.class_.scripts.outer", outer=line, tell=CALL)
    assert ("skills.class_.scripts.tell", 3, "send") in calls(found)


@pytest.mark.parametrize(
    "code",
    [
        "from skills.class_.scripts.other import x",
        "from skills.class_.scripts import other",
        "import skills.class_.scripts",
        "import skills; skills.class_.scripts.other",
    ],
)
def test_a_package_is_read_that_runs_before_its_modules(code: str) -> None:
    found = preview(code, __init__=CALL, other="x = 1")
    assert calls(found) == [("skills.class_.scripts.__init__", 3, "send")]


def test_an_action_that_uses_a_skill_is_followed_into_it() -> None:
    found = preview("from actions.tell import run\nawait run()", tell=CALL)
    assert calls(found) == [("skills.class_.scripts.tell", 3, "send")]


@pytest.mark.parametrize(
    ("code", "scripts"),
    [
        ("import skills\nprint(skills.class_.FOLDER)", {"tell": CALL}),
        ("import skills.class_.data.x", {"tell": CALL}),
        ("from skills.other import thing", {"tell": CALL}),
        ("from skills.class_.scripts import tell", {"tell": "from ........ import far\nfrom . import nothing"}),
        ("import skills", {}),
    ],
)
def test_what_the_preview_does_not_know_of_a_skill_is_no_finding(code: str, scripts: dict[str, str]) -> None:
    found = preview(code, **scripts)
    assert (found.calls, found.findings) == ((), ())


def test_a_module_that_does_not_parse_is_uncertain() -> None:
    found = preview("import skills.class_.scripts.tell", tell="def")
    assert [(one.within, one.message) for one in found.findings] == [
        ("skills.class_.scripts.tell", "skills.class_.scripts.tell cannot be read; what it calls only the run shows")
    ]
