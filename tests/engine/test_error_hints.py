"""Errors that teach: the sentence behind an error where code is wrong as models' code often is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from apps import fixture_server, open_app, run
from moonpool.core.envelope import ExecutionError
from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition
from moonpool.engine.error_hints import ErrorContext, remark_on, with_hint
from moonpool.server.mcp.answers import execution_answer
from tables import every_row

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.bootstrap import Tenant

TOOL_LISTS = Path(__file__).parents[1] / "data" / "toollists"


def listing(name: str) -> ServerListing:
    tools = json.loads((TOOL_LISTS / f"{name}.json").read_text(encoding="utf-8"))["result"]["tools"]
    return ServerListing(
        server_id=name, tools=tuple(ToolDefinition(server_id=name, name=raw["name"], raw=raw) for raw in tools)
    )


MANIFEST = Manifest(servers=tuple(map(listing, ("git", "time"))))
PYTHON = 'tools are called so: import servers.time; await servers.time.get_current_time(timezone="…")'
NODE = (
    'tools are called so: import * as time from "./servers/time/index.js"; await time.getCurrentTime({"timezone": "…"})'
)
BASH = 'tools are called so: moonpool call time.get_current_time \'{"timezone": "…"}\''
NO_NETWORK = "a sandbox has no network: code reaches everything outside by calling tools; servers: git, time"
AWAIT = "a call is a coroutine until it is awaited: write `await` before it"
BASE = (
    "the environment `base` has the standard library alone, and nothing can be installed; `data` has {}: "
    'the operator starts Moonpool with `--env data` (`environment="data"` in Python)'
)
INSTALLS_OR_DATA = BASE.replace("has {}", "has it").replace(
    "nothing can be installed", "more is installed by the application, not by code"
)
LOOPBACK = "127.0.0.1 and localhost are the sandbox's own: what listens on the machine outside is not reached there"
OTHER = 'this was read as Python; JavaScript needs `language`: "node"'
JS = "JavaScript"
GIT_TOO = "servers.git.git_log()"
IN_PYTHON = 'this was read as JavaScript; Python needs `language`: "python"'
IN_BASH = 'this was read as Python; Bash needs `language`: "bash"'
BASH_READ = 'this was read as Bash; Python needs `language`: "python"'
JS_IN_BASH = 'this was read as Bash; JavaScript needs `language`: "node"'
DATA = "a tool's result is not a JSON string: its `data` is parsed already, its `text` is the plain text"
PIP = "Command '['python3', '-m', 'pip', 'install', 'requests']'"
NODE_MODULES = "Node has its own modules here (node:fs, node:path…), and nothing can be installed"
PROGRAMS = "programs are those of the host's /usr, and nothing can be installed"
FENCE = "give the code alone, without the lines of ``` around it"
NOTEBOOK = "lines that begin with ! or % are a notebook's; this is plain Python, and nothing can be installed"
RESULT = "to hand a value over, set `result` or end with an expression"
NO_FILE = (
    "files of the machine outside are not in a sandbox: the code's own are in /workspace, others come by tools, or "
    "the operator puts them there (`--put`)"
)
NODE_IMPORT = "import * as time from './servers/time/index.js';\n"
PROMISE = "a call is a Promise until it is awaited: write `await` before it"
PACKAGES = "numpy, pandas, matplotlib, pydantic, IPython, requests"


def hint(
    kind: str,
    message: str,
    *,
    language: str = "python",
    code: str = "",
    stderr: str = "",
    environment: str = "base",
    refusals: list[str] | None = None,
    may_install: bool = False,
) -> str:
    """What is added to the error."""
    scene = ErrorContext(
        language=language,
        environment=environment,
        manifest=MANIFEST,
        code=code,
        stderr=stderr,
        refusals=refusals,
        may_install=may_install,
    )
    told = with_hint(ExecutionError(type=kind, message=message), scene).message
    assert told.startswith(message.rstrip("."))
    return told[len(message.rstrip(".")) :].removeprefix("; ")


@every_row(
    ("kind", "message", "more", "expected"),
    [
        ("AttributeError", "'coroutine' object has no attribute 'data'", {}, AWAIT),
        ("TypeError", "Object of type coroutine is not JSON serializable", {}, AWAIT),
        ("TypeError", "unsupported operand type(s) for +: 'coroutine' and 'int'", {}, AWAIT),
        ("ValueError", "'coroutine'", {}, ""),
        ("URLError", "<urlopen error [Errno -3] Temporary failure in name resolution>", {}, NO_NETWORK),
        ("ToolError", "fetch.fetch: [Errno -2] Name or service not known", {}, ""),
        ("ModuleNotFoundError", "No module named 'requests'", {}, NO_NETWORK),
        ("ModuleNotFoundError", "No module named 'pandas.core'", {}, BASE.replace("has {}", "has it")),
        ("ModuleNotFoundError", "No module named 'numpy'", {"may_install": True}, INSTALLS_OR_DATA),
        ("URLError", "[Errno 111] Connection refused", {"code": "get('http://127.0.0.1:1')", "refusals": []}, LOOPBACK),
        ("URLError", "[Errno 111] Connection refused", {"code": "get('http://my.localhost.com')"}, ""),
        ("ModuleNotFoundError", "No module named 'bs4'", {}, BASE.format(PACKAGES)),
        (
            "ModuleNotFoundError",
            "No module named 'bs4'",
            {"environment": "data"},
            f"the environment `data` has the standard library and {PACKAGES}, and nothing can be installed",
        ),
        ("ModuleNotFoundError", "No module named 'time.x'", {}, PYTHON),
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'pip'", {}, BASE.format(PACKAGES)),
        ("NameError", "name 'servers' is not defined", {"code": "await servers.time.get_current_time()"}, PYTHON),
        ("NameError", "name 'time' is not defined", {}, PYTHON),
        ("NameError", "name 'getCurrentTime' is not defined", {}, PYTHON),
        ("NameError", "name 'get_curent_time' is not defined", {"code": "get_curent_time()"}, PYTHON),
        ("NameError", "name 'get_curent_time' is not defined", {"code": "x = get_curent_time"}, ""),
        ("NameError", "name 'rows' is not defined", {"code": "rows()"}, ""),
        ("AttributeError", "server package 'servers.git' has no tool 'current_tme'", {"code": GIT_TOO}, PYTHON),
        ("TypeError", "the JSON object must be str, bytes or bytearray, not ToolCallResult", {}, DATA),
        ("TypeError", "Object of type ToolCallResult is not JSON serializable", {}, DATA),
        ("CalledProcessError", f"{PIP} returned non-zero exit status 1.", {}, BASE.format(PACKAGES)),
        ("CalledProcessError", "Command '['git', 'log']' returned non-zero exit status 1", {}, ""),
        ("AttributeError", "server package 'servers.git' has no tool 'current_time'; it has x", {}, PYTHON),
        ("SyntaxError", "invalid syntax (line 1)", {"code": "const x = 1"}, OTHER),
        ("SyntaxError", "invalid syntax (line 1)", {"code": "items.map((x) => {\n})"}, OTHER),
        ("SyntaxError", "invalid syntax (line 1)", {"code": "if x => (3):\n  pass"}, ""),
        ("SyntaxError", "invalid syntax (line 1)", {"code": 'echo "$HOME"\nls -la'}, IN_BASH),
        ("SyntaxError", "invalid syntax (line 1)", {"code": "x = ("}, ""),
        ("SyntaxError", "invalid syntax (line 1)", {"code": "```python\nresult = 1\n```"}, FENCE),
        ("SyntaxError", "invalid syntax (line 1)", {"code": "!pip install pandas"}, NOTEBOOK),
        ("SyntaxError", "'return' outside function (line 1)", {"code": "return 5"}, RESULT),
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'sales.csv'", {}, NO_FILE),
        ("ValueError", "anything else", {"code": "import servers.time"}, ""),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_a_mistake_in_python_is_answered_with_what_to_do(
    kind: str, message: str, more: dict[str, Any], expected: str
) -> None:
    assert hint(kind, message, **more) == expected


@every_row(
    ("language", "kind", "message", "more", "expected"),
    [
        ("node", "TypeError", "fetch failed: getaddrinfo EAI_AGAIN example.com", {}, NO_NETWORK),
        ("node", "ReferenceError", "servers is not defined", {"code": "servers.time.get_current_time()"}, NODE),
        ("node", "SyntaxError", "Unexpected token '.' (line 1)", {"code": "import servers.time as t"}, NODE),
        ("node", "SyntaxError", "Unexpected identifier 'os' (line 1)", {"code": "import os\nprint(1)"}, IN_PYTHON),
        ("node", "ReferenceError", "print is not defined", {"code": "print(1)"}, IN_PYTHON),
        ("node", "SyntaxError", "Unexpected identifier (line 1)", {"code": "echo hi"}, IN_BASH.replace("Python", JS)),
        ("node", "SyntaxError", '"[object Object]" is not valid JSON', {}, DATA),
        ("node", "Error", "Command failed: npm i left-pad\nnpm error code ENOTCACHED", {}, NODE_MODULES),
        ("node", "Error", "Cannot find package 'servers' imported from /w", {"code": "from 'servers/time'"}, NODE),
        ("node", "Error", "Cannot find module 'axios'", {}, NODE_MODULES),
        ("node", "TypeError", "t.get_current_time is not a function", {}, NODE),
        ("node", "TypeError", "rows.map is not a function", {}, ""),
        ("node", "TypeError", "rows.map is not a function", {"code": NODE_IMPORT + "x = time.list({})"}, PROMISE),
        ("node", "TypeError", "rows.map is not a function", {"code": NODE_IMPORT + "x = await time.list({})"}, ""),
        ("node", "Error", "ENOENT: no such file or directory, open 'x.csv'", {}, NO_FILE),
        ("bash", "ExitStatus", "status 1", {"stderr": "cat: x.csv: No such file or directory"}, NO_FILE),
        ("bash", "ExitStatus", "status 127", {"stderr": "line 1: servers.time.now: command not found"}, BASH),
        ("bash", "ExitStatus", "status 127", {"stderr": "line 1: get_current_time: command not found"}, BASH),
        ("bash", "ExitStatus", "status 127", {"code": "import servers.time", "stderr": "import: not found"}, BASH),
        ("bash", "ExitStatus", "status 2", {"code": "import os\nprint(1)", "stderr": "syntax error near"}, BASH_READ),
        ("bash", "ExitStatus", "status 1", {"code": "print(1)", "stderr": "grep: nothing"}, ""),
        ("bash", "ExitStatus", "status 127", {"code": "const x = 1", "stderr": "const: command not found"}, JS_IN_BASH),
        ("bash", "ExitStatus", "status 127", {"stderr": "line 1: jq: command not found"}, PROGRAMS),
        ("bash", "ExitStatus", "status 6", {"stderr": "curl: (6) Could not resolve host: example.com"}, NO_NETWORK),
        ("bash", "ExitStatus", "status 1", {"stderr": "error: externally-managed-environment"}, BASE.format(PACKAGES)),
        ("bash", "ExitStatus", "status 1", {"stderr": "grep: nothing"}, ""),
        ("bash", "ExitStatus", "status 1", {"stderr": '{"type":"ToolError","message":"Could not resolve"}'}, ""),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_node_and_bash_are_answered_in_their_own_syntax(
    language: str, kind: str, message: str, more: dict[str, str], expected: str
) -> None:
    assert hint(kind, message, language=language, **more) == expected


REFUSED = "evil.example:443 is not among the domains that this session may reach; whoever runs the session can allow it"
BY_PROXY = (
    "the network of this session is HTTP and HTTPS through the proxy that the variable HTTPS_PROXY names; names are "
    "resolved and addresses reached by the host alone"
)


@every_row(
    ("language", "message", "refusals", "expected"),
    [
        ("python", "<urlopen error Tunnel connection failed: 403 Forbidden>", [REFUSED], REFUSED),
        ("python", f"<urlopen error Tunnel connection failed: 403 Moonpool: {REFUSED}>", [REFUSED], ""),
        ("python", "[SSL: TLSV1_UNRECOGNIZED_NAME] tlsv1 unrecognized name (_ssl.c:1016)", ["other", REFUSED], REFUSED),
        ("python", "division by zero", [REFUSED], ""),
        ("python", "[Errno 101] Network is unreachable", [], BY_PROXY),
        ("python", "<urlopen error [Errno -3] Temporary failure in name resolution>", [], BY_PROXY),
        ("python", "No module named 'requests'", [], BASE.replace("has {}", "has it")),
        ("python", "[Errno 111] Connection refused", [REFUSED], REFUSED),
        ("node", "fetch failed", [REFUSED], REFUSED),
        ("bash", "exit status 56\ncurl: (56) CONNECT tunnel failed, response 403", [REFUSED], REFUSED),
    ],
)
def test_with_a_network_the_proxys_reason_is_behind_the_clients_error(
    language: str, message: str, refusals: list[str], expected: str
) -> None:
    kind = "ModuleNotFoundError" if "module" in message else "Error"
    assert hint(kind, message, language=language, refusals=refusals) == expected


@every_row(
    ("code", "expected"),
    [
        ("const r = time.getCurrentTime({});\nglobalThis.result = r.text", PROMISE),
        ("const r = await time.getCurrentTime({});\nglobalThis.result = r.text", ""),
        ("const r = time.getCurrentTime({}).then(r => r.data)", ""),
        ("const all = await Promise.all([1].map(() => time.getCurrentTime({})))", ""),
        ("const r = other.getCurrentTime({})", ""),
    ],
)
def test_a_promise_that_was_taken_for_its_value_is_remarked_on(code: str, expected: str) -> None:
    scene = ErrorContext(language="node", environment="base", manifest=MANIFEST, code=NODE_IMPORT + code, stderr="")
    assert remark_on(scene) == expected


async def test_node_code_that_awaits_nothing_is_told_so_beside_its_null() -> None:
    code = f"{NODE_IMPORT.replace('time', 'echo')}const r = echo.echo({{text: 'a'}});\nglobalThis.result = r.text"
    async with open_app({"echo": fixture_server("echo.py")}) as app:
        envelope = await run(app, code, language="node")
    assert (envelope.data, envelope.error, envelope.note) == (None, None, PROMISE)


def test_a_missing_file_is_sought_in_the_folders_that_are_attached() -> None:
    scene = ErrorContext(language="python", environment="base", manifest=MANIFEST, code="", stderr="", has_folders=True)
    error = ExecutionError(type="FileNotFoundError", message="[Errno 2] No such file or directory: 'x'")
    assert with_hint(error, scene).message.endswith("but for the folders that are attached to it")


def test_without_servers_nothing_is_made_up() -> None:
    scene = ErrorContext(language="python", environment="base", manifest=Manifest(), code="", stderr="")
    error = ExecutionError(type="NameError", message="name 'servers' is not defined")
    assert with_hint(error, scene).message.endswith("; no server is configured, so there are no tools to call")


@pytest.fixture(scope="module")
async def app() -> AsyncGenerator[Tenant]:
    async with open_app({"sheets": fixture_server("sheets.py", "sheets")}) as app:
        yield app


@pytest.mark.anyio
@pytest.mark.req("H-043")
async def test_what_a_model_reads_of_a_mistake_is_short_and_says_everything_once(app: Tenant) -> None:
    urllib = "import urllib.request\nurllib.request.urlopen('https://example.com')"
    calls = {
        "python": "r = await servers.sheets.get_all_rows(sheetId='q')",
        "node": "const r = await servers.sheets.getAllRows({sheetId: 'q'})",
        "bash": "servers.sheets.get_all_rows q",
    }
    examples = {
        "python": 'import servers.sheets; await servers.sheets.get_all_rows(sheetId="…")',
        "node": 'import * as sheets from "./servers/sheets/index.js"; await sheets.getAllRows({"sheetId": "…"})',
        "bash": 'moonpool call sheets.get_all_rows \'{"sheetId": "…"}\'',
    }
    read = execution_answer(await run(app, urllib)).structured
    assert read is not None
    assert "a sandbox has no network" in str(read["error"])
    assert read["stderr"] == (
        "Traceback (most recent call last):\n"
        "  File \"<code>\", line 2, in <module>\n    urllib.request.urlopen('https://example.com')\n"
    )
    for language, code in calls.items():
        read = execution_answer(await run(app, code, language=language)).structured
        assert read is not None
        error = read["error"]
        assert isinstance(error, dict)
        assert str(error["message"]).endswith(f"tools are called so: {examples[language]}")
        assert "is not defined" not in str(read["stderr"])


@pytest.mark.anyio
async def test_what_is_near_is_named_once_and_a_result_says_what_it_has(app: Tenant) -> None:
    near = await run(app, "from servers.sheets import get_all_row")
    code = """
from servers.sheets import get_all_rows
import servers.sheets
r = await get_all_rows(sheetId="q")
text, told = r.content[0].text, []
for wrong in (lambda: r["result"], lambda: servers.sheets.get_all_row):
    try:
        wrong()
    except Exception as error:
        told.append(f"{type(error).__name__}: {error}")
result = [type(text).__name__, *told]
"""
    read = await run(app, code)
    assert near.error is not None
    assert "near names: get_all_rows; it has " in near.error.message
    assert "_sync" not in near.error.message + str(read.data)
    assert isinstance(read.data, list), read
    assert read.data[:2] == ["str", "TypeError: there is no 'result': this tool returned list, which is `.data`"]
    assert str(read.data[2]).startswith("AttributeError: server package 'servers.sheets' has no tool 'get_all_row'")


@pytest.mark.anyio
async def test_what_installs_packages_fails_at_once(app: Tenant) -> None:
    code = "import os\nresult = [os.environ.get(n) for n in ('PIP_NO_INDEX', 'NPM_CONFIG_OFFLINE', 'UV_OFFLINE')]"
    assert (await run(app, code)).data == ["1", "true", "1"]
    if shutil.which("npm", path="/usr/bin"):
        npm = "import subprocess\nsubprocess.run(['npm', 'i', 'left-pad'], check=True)"
        error = (await run(app, npm)).error
        assert error is not None
        assert error.message.endswith(BASE.format(PACKAGES))


def test_no_code_holds_up_the_host_while_it_looks_for_a_hint() -> None:
    """Quadratic time would be minutes; the net of this run ends it."""
    for _ in range(100):
        assert hint("SyntaxError", "x", code="\n" * 20_000 + "(") == ""
        assert hint("SyntaxError", "x", language="node", code="\n" * 20_000 + "(") == ""
    for part in ("for x in ", " ", "if :", "from x import  ", ";", "import x from", "echo  ", "=>  ", "def f("):
        for language in ("python", "node", "bash"):
            hint("SyntaxError", "Unexpected", language=language, code=part * (20_000 // len(part)) + '"')
