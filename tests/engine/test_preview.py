"""What a preview reads off code, and what it says about it, with the recorded tool lists of published servers."""

from __future__ import annotations

import ast
import builtins
import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.code_reading.reading import read_code
from moonpool.core.errors import InputError
from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition
from moonpool.features.preview.model import Preview
from moonpool.features.preview.service import preview_code
from tables import every_row

if TYPE_CHECKING:
    from collections.abc import Generator

    from moonpool.code_reading.names import NameIndex

TOOL_LISTS = Path(__file__).parents[1] / "data" / "toollists"


def listing(name: str) -> ServerListing:
    tools = json.loads((TOOL_LISTS / f"{name}.json").read_text(encoding="utf-8"))["result"]["tools"]
    return ServerListing(
        server_id=name, tools=tuple(ToolDefinition(server_id=name, name=raw["name"], raw=raw) for raw in tools)
    )


MANIFEST = Manifest(servers=tuple(listing(name) for name in ("time", "git", "notion", "sequential-thinking")))


@contextmanager
def here(index: NameIndex, wire_names: Any) -> Generator[Any]:
    """Reads as the process does that parses a client's code; for tests that are not about that process."""
    yield lambda source, *, module="": read_code(source, index, wire_names, module=module)


def preview(code: str, **more: Any) -> Preview:
    return preview_code(code.encode(), MANIFEST, reader=here, **more)


def calls(code: str) -> list[str]:
    return [
        f"{one.line} {one.server_id}.{one.tool}({', '.join(f'{name}={value}' for name, value in one.arguments)}"
        f"{'' if one.complete else ' …'})"
        for one in preview(code).calls
    ]


def findings(code: str) -> list[tuple[int, str, str]]:
    return [(one.line, one.kind, one.message) for one in preview(code).findings]


ZONES = 'source_timezone="UTC", time="09:00", target_timezone="Asia/Tokyo"'
READ = '1 time.convert_time(source_timezone="UTC", time="09:00", target_timezone="Asia/Tokyo")'


@every_row(
    "code",
    [
        pytest.param(f"import servers.time; await servers.time.convert_time({ZONES})", id="import servers.x"),
        pytest.param(f"import servers.time as t; await t.convert_time({ZONES})", id="import servers.x as y"),
        pytest.param(f"import servers; servers.time.convert_time_sync({ZONES})", id="import servers, sync"),
        pytest.param(f"from servers import time; await time.convert_time({ZONES})", id="from servers import x"),
        pytest.param(f"from servers.time import convert_time; convert_time({ZONES})", id="from servers.x import f"),
        pytest.param(f"from servers.time import convert_time as f; f({ZONES})", id="from servers.x import f as g"),
        pytest.param(f"from servers.time.convert_time import convert_time as f; f({ZONES})", id="the tool's own file"),
        pytest.param(f"import servers.time.convert_time as f; f({ZONES})", id="import of the tool's file"),
        pytest.param(f"import servers.time as t; f = t.convert_time; f({ZONES})", id="another name"),
        pytest.param(f"from servers.time import convert_time; convert_time(dict({ZONES}))", id="dict(...)"),
        pytest.param(
            f"from servers.time.convert_time import ConvertTimeInput as I, convert_time as f; f(I({ZONES}))",
            id="TypedDict",
        ),
        pytest.param(
            "from servers.time import convert_time; "
            'convert_time({"source_timezone": "UTC", "time": "09:00"}, target_timezone="Asia/Tokyo")',
            id="dict and keywords",
        ),
        pytest.param(
            'from servers.time import convert_time as f; f(**{"source_timezone": "UTC", "time": "09:00"}, '
            'target_timezone="Asia/Tokyo")',
            id="unpacked dict",
        ),
        pytest.param(
            "from client.mcp_client import call_tool; await call_tool(server_id='time', name='convert_time', "
            "arguments={'source_timezone': 'UTC', 'time': '09:00', 'target_timezone': 'Asia/Tokyo'})",
            id="call_tool",
        ),
        pytest.param(
            "import client.mcp_client as c; c.call_tool_sync(server_id='time', name='convert_time', "
            "arguments={'source_timezone': 'UTC', 'time': '09:00', 'target_timezone': 'Asia/Tokyo'})",
            id="call_tool_sync of the module",
        ),
        pytest.param(f"from mcptools.time import convert_time as c; c.run(c.Params({ZONES}))", id="mcptools Params"),
        pytest.param(f"from mcptools.time import convert_time as c; c.run(params=c.Params({ZONES}))", id="params="),
        pytest.param(f"from mcptools.time.convert_time import run_async; await run_async({ZONES})", id="run_async"),
        pytest.param(f'import servers.time as t; getattr(t, "convert_time")({ZONES})', id="getattr with a literal"),
        pytest.param(
            f'import importlib; importlib.import_module("servers.time").convert_time({ZONES})', id="import_module"
        ),
        pytest.param(f"import servers.time as t; [t.convert_time({ZONES}) for _ in range(3)]", id="comprehension"),
    ],
)
def test_a_call_is_read_in_every_form(code: str) -> None:
    assert calls(code) == [READ]
    assert [one for one in findings(code) if one[1] not in {"MissingAwait", "UnreadResult"}] == []


@pytest.mark.parametrize(
    ("code", "read"),
    [
        pytest.param("f(time=now())", "(time=…)", id="computed value"),
        pytest.param("f({'time': [1, {'a': -2.5, 'b': x}]})", "(time=…)", id="computed deep inside"),
        pytest.param("f(**more)", "( …)", id="computed names"),
        pytest.param("f(*more)", "( …)", id="starred"),
        pytest.param("f(arguments)", "( …)", id="a variable"),
        pytest.param("f({'time': 1, **more})", "(time=1 …)", id="a dict with more"),
        pytest.param("f({'time': 1, key: 2})", "(time=1 …)", id="a computed key"),
        pytest.param("f(None)", "()", id="None is no arguments"),
    ],
)
def test_what_is_computed_is_left_open(code: str, read: str) -> None:
    assert calls(f"from servers.time import convert_time as f; {code}") == [f"1 time.convert_time{read}"]


@every_row(
    ("code", "kind", "sentence"),
    [
        pytest.param(
            "import servers.tiem",
            "UnknownServer",
            "did you mean server time? Example: await servers.time.get_current_time(",
            id="server",
        ),
        pytest.param(
            "import servers.weather",
            "UnknownServer",
            "servers are git, notion, sequential-thinking, time. Example: await servers.",
            id="a server like none",
        ),
        pytest.param(
            "from servers.git import zzz",
            "UnknownTool",
            "there is no tool git.zzz; server git has git_status, ",
            id="a tool like none",
        ),
        pytest.param(
            "from servers.git import zzz", "UnknownTool", ". Example: await servers.git.git_", id="its example"
        ),
        pytest.param(
            "from servers.time import convert_tme",
            "UnknownTool",
            "there is no tool time.convert_tme; did you mean time.convert_time? "
            'Example: await servers.time.convert_time(source_timezone="…", time="…", target_timezone="…")',
            id="tool imported",
        ),
        pytest.param("import servers\nservers.time.convrt_time", "UnknownTool", "time.convert_time?", id="attribute"),
        pytest.param("import mcptools.git.git_statu", "UnknownTool", "git.git_status", id="mcptools"),
        pytest.param(
            "from client.mcp_client import call_tool\ncall_tool(server_id='time', name='convert-time')",
            "UnknownTool",
            "did you mean time.convert_time?",
            id="call_tool's tool",
        ),
        pytest.param(
            "from client.mcp_client import call_tool\ncall_tool(server_id='gti', name='git_log')",
            "UnknownServer",
            "did you mean server git?",
            id="call_tool's server",
        ),
        pytest.param(
            "from servers.time import get_current_time as f\nf(time_zone='UTC')",
            "ValidationError",
            "(you gave 'time_zone'). Valid parameters for time.get_current_time (* = required): timezone*: string. "
            'Example: await servers.time.get_current_time(timezone="…")',
            id="a misspelt required parameter",
        ),
        pytest.param(
            "from servers.git import git_log as f\nf(repo_path=p, max_cont=3)",
            "ValidationError",
            "git.git_log declares no parameter 'max_cont'; did you mean 'max_count'? Valid parameters",
            id="a misspelt optional parameter",
        ),
        pytest.param(
            "from servers.git import git_log as f\nf(repo_path=p, max_count='3')",
            "ValidationError",
            'at \'max_count\': "3" is not of type "integer"',
            id="a literal of the wrong type",
        ),
        pytest.param(
            "from client.mcp_client import call_tool\ncall_tool('git', 'git_status', {'repo_path': '/x'})",
            "TypeError",
            "call_tool takes keywords only",
            id="positional call_tool",
        ),
        pytest.param(
            "import servers.git as g\ng.git_status('/x', 1)", "TypeError", "one dict or model", id="two positional"
        ),
        pytest.param(
            "from servers.git import git_status as f\nf({'repo_path': '/x'}, repo_path='/y')",
            "TypeError",
            "argument 'repo_path' is given twice",
            id="given twice",
        ),
        pytest.param(
            "from mcptools.git import git_status\ngit_status(repo_path='/x')", "TypeError", ".run(", id="no run"
        ),
    ],
)
def test_what_would_be_refused_is_an_error_that_teaches(code: str, kind: str, sentence: str) -> None:
    shown = preview(code)
    assert shown.has_errors
    assert [one.kind for one in shown.findings] == [kind]
    assert sentence in shown.findings[0].message


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("import servers.time as t\ngetattr(t, name)()", id="computed tool"),
        pytest.param("import importlib\nimportlib.import_module('servers.' + x)", id="computed module"),
        pytest.param(
            "from client.mcp_client import call_tool\nawait call_tool(server_id=s, name='a')", id="computed server"
        ),
        pytest.param("from servers.time import *", id="star"),
        pytest.param("from servers.time import get_current_time as f\nlist(map(f, zones))", id="passed on"),
        pytest.param("from servers.time import get_current_time as f\nif x: f = print\nf()", id="two meanings"),
    ],
)
def test_what_only_the_run_shows_is_uncertain(code: str) -> None:
    shown = preview(code)
    assert [one.kind for one in shown.findings] == ["Computed"]
    assert not shown.has_errors


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("import time, json\ntime.convert_tme()", id="a module of the same name"),
        pytest.param("from servers.time import get_current_time as f\ndef g(f): f(wrong=1)", id="a parameter shadows"),
        pytest.param("import servers.time as t\n[t.nothing() for t in rows]", id="a comprehension shadows"),
        pytest.param("import servers.time as t\nclass A:\n  t = 1\n  x = t.nothing", id="a class body shadows"),
        pytest.param("import servers\nservers.__path__; servers.time.__all__", id="dunders"),
        pytest.param("from . import servers\nfrom .servers import x", id="relative imports"),
        pytest.param("x = x.y = x\nx()", id="made of itself"),
        pytest.param("import client\nclient.other()", id="what else client has"),
        pytest.param("from mcptools.git import git_status\ngit_status.run_parsed('x')", id="an extension of one's own"),
    ],
)
def test_what_is_no_tool_is_left_alone(code: str) -> None:
    assert (findings(code), calls(code)) == ([], [])


IMPORTS = "import asyncio, json\nimport servers.time as t\nfrom client.mcp_client import call_tool, run_tool\n"


@every_row(
    ("code", "kinds"),
    [
        ("t.convert_time()", ["MissingAwait"]),
        ("r = t.convert_time()\nprint(r.data)", ["MissingAwait"]),
        ("result = t.convert_time()", ["MissingAwait"]),
        ("x = t.convert_time().data", ["MissingAwait"]),
        ("for row in t.convert_time(): print(row)", ["MissingAwait"]),
        ('print(f"{t.convert_time()}")', ["MissingAwait"]),
        ("if t.convert_time() == 1: pass", ["MissingAwait"]),
        ("x = len(call_tool(server_id='time', name='convert_time'))", ["MissingAwait"]),
        ("task = t.convert_time()\nresult = await task", []),
        ("result = await asyncio.gather(t.convert_time(), t.convert_time())", []),
        ("jobs = [t.convert_time() for _ in 'ab']\nresult = await asyncio.gather(*jobs)", []),
        ("def start(): return t.convert_time()\nresult = await start()", []),
        ("result = asyncio.run(t.convert_time())", []),
        ("await t.convert_time()\nresult = {'inserted': 3}", ["UnreadResult"]),
        ("r = await t.convert_time()\nresult = {'inserted': 3}", ["UnreadResult"]),
        ("t.convert_time_sync()\nresult = 1", ["UnreadResult"]),
        ("for n in 'ab':\n    await t.convert_time()\nresult = 1", ["UnreadResult"]),
        ("await asyncio.gather(t.convert_time(), t.convert_time())\nx = 1", ["UnreadResult"] * 2),
        ("async def f():\n    result = await t.convert_time()\nawait f()", ["UnreadResult"]),
        ("await t.convert_time()", []),  # the last expression is the result
        ("await asyncio.gather(t.convert_time(), t.convert_time())", []),
        ("(await t.convert_time()).unwrap()\nx = 1", []),
        ("result = await t.convert_time()", []),
        ("r = await t.convert_time()\nif not r.ok: print(r.error)", []),
        ("def show(): print(r)\nr = await t.convert_time()\nshow()", []),
        ("import mcptools.time.convert_time as c\nc.run()\nx = 1", []),  # which raises
        ("await run_tool(server_id='time', name='convert_time')\nx = 1", []),
    ],
)
def test_a_missing_await_and_a_result_that_nobody_looks_at_are_found(code: str, kinds: list[str]) -> None:
    arguments = "source_timezone='UTC', time='09:00', target_timezone='UTC'"
    code = code.replace("time()", f"time({arguments})").replace("time_sync()", f"time_sync({arguments})")
    code = code.replace("run()", f"run({arguments})")
    code = code.replace("name='convert_time'", f"name='convert_time', arguments=dict({arguments})")
    shown = preview(IMPORTS + code)
    assert [one.kind for one in shown.findings] == kinds
    assert shown.has_errors == ("MissingAwait" in kinds)
    assert all("servers.time.convert_time" in one.message or "call_tool" in one.message for one in shown.findings)


def test_what_is_found_is_told_by_the_process_that_reads() -> None:
    code = (
        b"import servers.time as t\nt.get_current_time(timezone='UTC')\nawait t.get_current_time(timezone='UTC')\nx = 1"
    )
    assert [(one.line, one.kind, str(one.certainty)) for one in preview_code(code, MANIFEST).findings] == [
        (2, "MissingAwait", "error"),
        (3, "UnreadResult", "remark"),
    ]


def test_global_and_nonlocal_names_are_followed() -> None:
    code = """
def load():
    global tool
    from servers.git import git_status as tool
load()
tool(repo_path=1)
"""
    assert calls(code) == ["6 git.git_status(repo_path=1)"]


def test_names_of_parameters_are_those_of_the_wrapper_and_of_the_server() -> None:
    raw = {"inputSchema": {"type": "object", "properties": {"from": {"type": "string"}}, "required": ["from"]}}
    tool = ToolDefinition(server_id="mail", name="fetch", raw={"name": "fetch", **raw})
    manifest = Manifest(servers=(ServerListing(server_id="mail", tools=(tool,)),))
    for code in ("await f(from_='me')", "await f({'from': 'me'})", "await f(**{'from': 'me'})"):
        shown = preview_code(f"from servers.mail import fetch as f\n{code}".encode(), manifest)
        assert (shown.calls[0].arguments, shown.findings) == ((("from", '"me"'),), ())


def test_code_that_does_not_parse_is_reported_as_the_run_would() -> None:
    assert findings("x = (\n") == [(1, "SyntaxError", "'(' was never closed")]


def test_a_server_whose_tools_are_not_known_is_named() -> None:
    code = "import servers.gone\nfrom client.mcp_client import call_tool\nawait call_tool(server_id='gone', name='x')"
    shown = preview(code, missing=("gone",))
    assert [(one.kind, "could not be listed" in one.message) for one in shown.findings] == [("Unreachable", True)] * 2


def test_calls_of_a_paused_tool_are_errors_in_the_words_of_the_refusal() -> None:
    held = {("time", "convert_time"): "time.convert_time is paused: its server changed it"}
    shown = preview_code(
        b"import servers.time\nawait servers.time.convert_time()\nawait servers.time.get_current_time(timezone='UTC')",
        Manifest(servers=MANIFEST.servers, held=held),
    )
    assert [(one.line, one.kind, one.message) for one in shown.findings] == [
        (2, "ToolPaused", held["time", "convert_time"])
    ]


def test_code_that_is_nested_too_deeply_is_not_previewed() -> None:
    shown = preview("x = " + "-" * 100_000 + "1")
    assert (shown.findings, "nested too deeply" in shown.not_read) == ((), True)


def test_a_name_without_end_is_refused_by_its_line() -> None:
    with pytest.raises(InputError, match="line 4 of the code has a name of more than 1,000 parts"):
        preview("x = \\\n    1\n\nimport a" + ".a" * 2000)


@pytest.mark.parametrize("language", ["node", "bash"])
def test_other_languages_are_not_previewed_and_say_so(language: str) -> None:
    shown = preview("import x from 'servers/time'", language=language)
    assert f"{language} code is not previewed" in shown.not_read
    assert shown.to_json()["previewed"] is False


@pytest.mark.parametrize("code", [b"x" * 1_000_001, b"\xff\xfe"])
def test_code_that_cannot_be_read_at_all_is_one_sentence(code: bytes) -> None:
    with pytest.raises(InputError):
        preview_code(code, MANIFEST)


def test_lists_are_bounded_and_say_what_they_leave_out() -> None:
    shown = preview("import servers.git as g\n" + "g.git_status(repo_path=1)\n" * 1100)
    assert (len(shown.calls), shown.left_out) == (1000, 100)
    assert len(shown.findings) == 201 + 51  # calls that are checked, calls that nobody awaits
    assert preview("x = [" + "1," * 300_000 + "]").not_read


DEEP = {
    "parentheses": "'(' * n + ')' * n",
    "lists": "'[' * n",
    "signs": "'-' * n + '1'",
    "nots": "'not ' * n + '1'",
    "attributes": "'import servers.time as t; t' + '.a' * n",
    "sums": "'x' + '+x' * n",
    "calls": "'f' + '()' * n",
    "lambdas": "'lambda:' * n + '1'",
    "conditions": "'1 if x else ' * n + '1'",
    "getattrs": "'getattr(' * n",
    "blocks": "''.join(' ' * i + 'if x:\\n' for i in range(n // 50))",
    "powers": "'2' + '**9' * n",
    "texts": "'f\"{' * n",
    "chains": "'a=' * n + '1'",
    "aliases": "'import servers.time as a0;' + ''.join(f'a{i+1}=a{i};' for i in range(n // 10)) + f'a{n // 10}.x()'",
}


def test_code_of_any_depth_ends_in_a_preview() -> None:
    """In a process of its own: what would be lost by a crash of the parser is this process."""
    program = f"""
from moonpool.core.errors import InputError
from moonpool.core.manifest import Manifest
from moonpool.features.preview.service import preview_code
for form, text in {DEEP!r}.items():
    print(form, flush=True)
    for n in (90, 1_000, 50_000):
        code = eval(text, {{"n": n}}).encode()[:999_999]
        try:
            preview_code(code, Manifest())
        except InputError:
            assert n >= 1_000
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout.splitlines()) == (0, list(DEEP)), done.stderr[-2000:]


STATEMENTS = st.sampled_from([
    "import servers.time as t", "from servers import git", "from servers.time import convert_time as f",
    "import importlib", "from client.mcp_client import call_tool", "t = f", "f = t.convert_time", "global t",
    "def g(t, *a, **k): return t.x(*a, **k)", "class C(t.A, k=f()): t = 1", "f({'a': {}, **t}, *f, x=1, **f)",
    "call_tool(server_id='git', name='git_log', arguments=t)", "with f() as t: pass", "for t in f(): pass",
    "match t:\n case {'a': t, **k}: pass\n case [*k]: pass\n case t.x(a=1) as f: pass", "del t", "t: int = f",
    "try: pass\nexcept* t.E as f: pass", "getattr(t, 'a')(1)", "getattr(t, f)", "x = lambda t=f: t(y := f)",
    "[t.a(f) for t in f if (f := t)]", "print(f'{t.a!r:>{f}}')", "import servers", "servers.time.convert_time(a=1e999)",
    "f(time='\\ud800')", "f(time=-1, **{'time': 10**400, 1: 2})", "f(f(f(time=...)))", "raise SystemExit(t)",
    "open('/tmp/never', 'w'); __import__('os').abort()", "importlib.import_module('servers.nope')",
])  # fmt: skip


@given(st.lists(STATEMENTS, max_size=12).map("\n".join))
def test_any_code_is_read_and_none_is_executed(code: str) -> None:
    ast.parse(code)
    shown = preview(code)
    assert json.loads(json.dumps(shown.to_json()))["previewed"] is True


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda data: data.decode(errors="replace")))
def test_any_text_is_answered(code: str) -> None:
    if any("\ud800" <= char <= "\udfff" for char in code):
        return
    json.dumps(preview(code).to_json())


def test_nothing_is_imported_or_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("a preview must not do this")

    code = (
        "import servers.time, os, never_heard_of\nos.abort()\nexec('1')\nservers.time.get_current_time(timezone='UTC')"
    )
    preview(code)  # what it imports itself is there by now
    for name in ("exec", "eval", "open", "__import__"):
        monkeypatch.setattr(builtins, name, refused)
    shown = preview(code)
    monkeypatch.undo()
    assert len(shown.calls) == 1
