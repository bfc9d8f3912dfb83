"""Code in a sandbox finds and reads tools: by search, by help() and dir(), in INDEX.md, and in Bash."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from apps import fixture_server, open_app, run

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from moonpool.bootstrap import Tenant

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def app() -> AsyncGenerator[Tenant]:
    async with open_app({"my-sheets": fixture_server("sheets.py"), "echo": fixture_server("echo.py")}) as opened:
        yield opened


@pytest.mark.req("H-049")
async def test_search_and_definition(app: Tenant) -> None:
    code = """
from client.catalog import definition, search
hits = search(["rows of a sheet", "echo text"], limit=2)
first = hits[0]
same = [definition(path) for path in (first.path, f"{first.server}.{first.tool}")]
result = {"hits": hits, "path": first.path, "server": first.server, "stub": same[0], "same": len(set(same)),
          "read_only": search("rows", read_only=True), "echo": [h.server for h in search("rows text", server="echo")]}
"""
    envelope = await run(app, code)
    assert envelope.ok, envelope.error
    found = envelope.data
    assert isinstance(found, dict)
    assert found["hits"][0].startswith("servers.my_sheets.")
    assert " — " in found["hits"][0]
    assert found["hits"][1].startswith("servers.echo.")
    assert found["server"] == "my-sheets"
    assert found["stub"].startswith(f"await {found['path']}(")
    assert found["same"] == 1
    assert set(found["echo"]) <= {"echo"}
    assert envelope.metrics["tool_calls"] == 0


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("search('')", "needs words"),
        ("search('x', limit=51)", "out of range"),
        ("search(['x'] * 11)", "at most 10"),
        ("search('x', server='nosuch')", "known servers: my-sheets"),
        ("definition('my-sheets.nosuch')", "no tool"),
        ("definition('')", "no tool"),
        ("search(7)", "needs a string or a list of strings, not 7"),
        ("definition(search('rows'))", "needs a string, not ["),
    ],
)
async def test_refusals_say_what_to_do(app: Tenant, expression: str, message: str) -> None:
    envelope = await run(app, f"from client.catalog import definition, search\n{expression}")

    assert envelope.error is not None
    assert message in envelope.error.message


async def test_namesakes_are_one_line_and_unspaced_scripts_are_read_by_pairs(tmp_path: Path) -> None:
    tools = [{"name": "get_rows", "description": "获取天气预报"}, {"name": "getRows"}, {"name": "✓"}]
    (tmp_path / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
    server = fixture_server("recorder.py", str(tmp_path / "tools.json"), str(tmp_path / "log"))
    code = """
from client.catalog import search
hits = search("get rows")
result = [hits, [hit.also for hit in hits], search("天气")[0].path]
"""
    async with open_app({"one": server, "two": server}) as opened:
        envelope = await run(opened, code)

    assert envelope.ok, envelope.error
    assert envelope.data == [
        ["servers.one.getRows (also on two)", "servers.one.get_rows — 获取天气预报 (also on two)"],
        [["servers.two.getRows"], ["servers.two.get_rows"]],
        "servers.one.get_rows",
    ]


async def test_the_tree_reads_well_without_search(app: Tenant) -> None:
    code = """
import contextlib, io, pathlib, servers, servers.my_sheets as sheets
def told(thing):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        help(thing)
    return out.getvalue()
tool = next(name for name in dir(sheets) if not name.startswith("_") and not name.endswith("_sync"))
root = pathlib.Path("servers/INDEX.md").read_text()
result = {"servers": told(servers), "server": told(sheets), "tool": told(getattr(sheets, tool)), "name": tool,
          "dir": [name for name in dir(servers) if not name.startswith("_")], "root": root,
          "own": pathlib.Path("servers/my_sheets/INDEX.md").read_text()}
"""
    envelope = await run(app, code)
    assert envelope.ok, envelope.error
    told = envelope.data
    assert isinstance(told, dict)
    name = told["name"]
    assert told["dir"] == ["echo", "my_sheets"]
    assert "my_sheets: " in told["servers"]
    assert f"{name}: " in told["server"]
    assert f"{name}(" in told["tool"]
    assert f"- `{name}(" in told["own"]
    assert f"  - `{name}(" in told["root"]


async def test_bash_finds_the_same(app: Tenant) -> None:
    python = await run(app, "from client.catalog import search\nresult = search(['rows of a sheet', 'echo text'])")
    bash = await run(app, "moonpool search 'rows of a sheet' 'echo text'; moonpool search; echo $?", language="bash")

    assert isinstance(python.data, list)
    assert bash.extras["stdout"].splitlines() == [*python.data, "2"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("from servers import my_shets", "'servers' has no 'my_shets'; near names: my_sheets; it has my_sheets, echo"),
        ("import servers.my_shets", "'servers' has no 'my_shets'; near names: my_sheets; it has my_sheets, echo"),
        ("from servers.echo import ecko", "'servers.echo' has no 'ecko'; near names: echo; it has "),
        ("from mcptools.echo import ecko", "'mcptools.echo' has no 'ecko'; near names: echo; it has "),
        ("import actions", "no actions are kept here, so there is no module 'actions'"),
        ("from skills.pdf import FOLDER", "no skills are kept here, so there is no module 'skills'"),
        ("import numpi", "No module named 'numpi'"),
    ],
)
async def test_imports_of_what_is_not_there_say_what_there_is(app: Tenant, statement: str, message: str) -> None:
    envelope = await run(app, statement)

    assert envelope.error is not None
    assert envelope.error.type == "ModuleNotFoundError"
    assert message in envelope.error.message


async def test_optional_imports_stay_optional(app: Tenant) -> None:
    code = """
import servers
from importlib.util import find_spec
result = [find_spec(name) is None for name in ("servers.nosuch", "servers.echo", "actions")]
try:
    from servers import nosuch
except ImportError as error:
    result.append(error.name)
result += [hasattr(servers, "nosuch"), hasattr(servers, "echo")]
"""
    assert (await run(app, code)).data == [True, False, True, "servers", False, True]


async def test_without_servers_an_import_says_that_there_are_none() -> None:
    async with open_app({}) as bare:
        envelope = await run(bare, "from servers import time")
    assert envelope.error is not None
    assert "'servers' has no 'time'; it is empty: no server is configured" in envelope.error.message
