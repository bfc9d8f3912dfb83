"""`moonpool mcp --profile ipybox` over real stdio, with the official client."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import click
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters

from apps import DATA, SERVERS, open_app
from commands.process import SCRIPT
from from_ipybox.examples import stand_ins
from from_ipybox.processes import processes_with
from from_ipybox.test_folders import PICTURE
from moonpool.bootstrap.stores import opened_approvals
from moonpool.cli.log_lines import log_from
from moonpool.cli.mcp import mcp
from moonpool.core.calls import ApprovalState
from moonpool.core.errors import ConfigError, InputError
from moonpool.features.approvals.model import Answerer
from moonpool.ipybox import generate_mcp_sources
from moonpool.ipybox.mcp_server.definitions import REGISTER
from moonpool.ipybox.mcp_server.serving import registration_in, rules_in_force
from moonpool.ipybox.mcp_server.tools import IpyboxTools
from moonpool.ipybox.mcp_server.workspace import Workspace, enter_workspace
from moonpool.pipeline.approval import AutoApprover, ScriptedApprover
from moonpool.server.mcp.answers import Answer
from moonpool.server.mcp.client_requests import Bindings
from moonpool.server.mcp.connection_calls import Caller
from moonpool.settings import Settings
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path
from packages.fake_index import Index
from process_tree import descendants_of, wait_gone
from run_folder import run_folder
from server.raw_client import PATIENCE_S, RawClient
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from moonpool.pipeline.approval import Approver

    Say = Callable[[str], types.ElicitResult]

pytestmark = pytest.mark.anyio
ECHO: dict[str, Any] = {"command": sys.executable, "args": [str(SERVERS / "echo.py")]}
CALL = "from mcptools.echo import echo\nprint(echo.run(echo.Params(word='hello')))"
PASSWORD = "hunter2-correct-horse-battry"
NAMES = ["register_mcp_server", "execute_ipython_cell", "install_package", "reset"]


def yes(_: str) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"allow": True})


def no(_: str) -> types.ElicitResult:
    return types.ElicitResult(action="decline")


@asynccontextmanager
async def profile(
    workspace: Path, *options: str, say: Say | None = yes, mode: str = "auto", cwd: Path | None = None, **environ: str
) -> AsyncGenerator[tuple[Client, list[str]]]:
    """A client of a server in `workspace`, and what its user was asked. `say` None: it cannot ask."""
    asked: list[str] = []

    async def elicit(_: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        assert say is not None
        return say(params.message)

    command = StdioServerParameters(
        command=str(SCRIPT),
        args=["mcp", "--profile", "ipybox", "--workspace", str(workspace), *options],
        cwd=cwd,
        env={"MOONPOOL_DATA_DIR": str(DATA), "MOONPOOL_ENVIRONMENT": "base", "OUTER": "outer value", **environ},
    )
    with anyio.fail_after(120):
        async with Client(command, mode=mode, elicitation_callback=elicit if say else None) as client:
            yield client, asked


async def text(client: Client, name: str, failed: bool = False, **arguments: Any) -> str:
    """The text of an answer."""
    result = await client.call_tool(name, arguments)
    assert result.is_error is failed, result.content
    assert all(block.type == "text" for block in result.content)
    return "\n".join(block.text for block in result.content if block.type == "text")


async def cell(client: Client, code: str, failed: bool = False, **more: Any) -> str:
    return await text(client, "execute_ipython_cell", failed, code=code, **more)


@pytest.mark.req(
    "I-080", "I-081", "I-082", "I-083", "I-085", "I-086", "I-089", "I-090", "I-100", "I-101", "X-16", "X-28"
)
@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.slow)])
async def test_an_agent_registers_calls_saves_and_resets(tmp_path: Path, mode: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / ".env").write_text(
        f"WORD=from-the-file\nKERNEL_ENV_WORDS=kernel\nKERNEL_ENV_DB_PASSWORD={PASSWORD}\n", encoding="utf-8"
    )
    async with profile(work, mode=mode) as (client, asked):
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == NAMES
        execute = listed[1].input_schema["properties"]
        assert (execute["timeout"]["default"], execute["max_output_chars"]["default"]) == (120, 5000)

        # State, also before a server is registered; the kernel has its own variables only
        assert await cell(client, "import os\nx = 41\nprint(os.getcwd())") == str(work)
        told = await cell(client, "print(x + 1, os.environ['WORDS'], 'OUTER' in os.environ, 'WORD' in os.environ)")
        assert told == "42 kernel False False"
        told = await cell(client, "print(os.environ['DB_PASSWORD'], len(os.environ['DB_PASSWORD']))")
        assert ("hunter2" in told, told.endswith("28")) == (False, True)

        params = {**ECHO, "env": {"ECHO_WORD": "${WORD}"}}
        names = (await text(client, "register_mcp_server", server_name="echo", server_params=params)).split("\n")
        assert set(names) == {path.stem for path in (work / "mcptools" / "echo").glob("*.py")} - {"__init__", "_client"}
        assert "${WORD}" in asked[0]
        assert "register the MCP server echo: its command runs on this machine" in asked[0]
        assert await cell(client, f"{CALL}\nprint(x)") == '{"word": "hello"}\n41'  # in the same kernel
        assert "wants to call echo.echo" in asked[1]

        # Saved code and an output parser, written on the host while the kernel lives
        saved, parser = work / "gentools" / "demo" / "shout", work / "mcpparse" / "echo"
        saved.mkdir(parents=True)
        parser.mkdir(parents=True)
        (saved / "api.py").write_text('from .impl import shout as run\n\n__all__ = ["run"]\n', encoding="utf-8")
        (saved / "impl.py").write_text("def shout(word):\n    return word.upper()\n", encoding="utf-8")
        (saved / "__init__.py").write_text("from .api import run\n", encoding="utf-8")
        (parser / "echo.py").write_text(
            "from mcptools.echo.echo import Params, run\n\n\ndef run_parsed(params: Params) -> str:\n"
            "    return 'parsed ' + str(run(params))\n",
            encoding="utf-8",
        )
        assert await cell(client, "from gentools.demo.shout import run\nprint(run('hi'))") == "HI"
        assert await cell(client, "print(echo.run_parsed(echo.Params(word='w')))") == 'parsed {"word": "w"}'

        # A new kernel knows all but variables; registering again leaves the parser alone
        assert await text(client, "reset") == ""
        assert "NameError" in await cell(client, "x", failed=True)
        await text(client, "register_mcp_server", server_name="echo", server_params=params)
        code = "from mcptools.echo.echo import Params, run_parsed\nprint(run_parsed(Params(word='again')))"
        assert await cell(client, code) == 'parsed {"word": "again"}'
        assert (parser / "echo.py").exists()

        long = await cell(client, "print('a' * 4000 + 'b' * 4000)", max_output_chars=1000)
        head, _, where = long.rpartition("\n\n[all of it: ")
        assert len(head) <= 1000
        assert "characters left out" in head
        assert Path(where.removesuffix("]")).read_text(encoding="utf-8") == "a" * 4000 + "b" * 4000
        await cell(client, "open('report.txt', 'w').write('made by code')")
        assert (work / "report.txt").read_text(encoding="utf-8") == "made by code"

    # What was registered is there for the next process; nobody is asked again
    async with profile(work, say=yes, mode=mode) as (client, asked):
        assert await cell(client, CALL) == '{"word": "hello"}'
        assert len(asked) == 1


BRAVE: dict[str, Any] = {
    "command": "npx",
    "args": ["-y", "@brave/brave-search-mcp-server", "--transport", "stdio"],
    "env": {"BRAVE_API_KEY": "${BRAVE_API_KEY}"},
}
SEARCH = """
from mcptools.brave_search.brave_web_search import Params, run

result = run(Params(query="Python asyncio tutorial", count=3))
print(result)
"""


@pytest.mark.req("I-081", "I-089", "I-090")
@pytest.mark.parametrize(
    ("of_client", "of_file", "length"),
    [
        pytest.param({"BRAVE_API_KEY": "abcd"}, "", 4, id="client", marks=pytest.mark.slow),
        pytest.param({}, "BRAVE_API_KEY=abcdef\n", 6, id="file"),
        pytest.param({"BRAVE_API_KEY": "abcd"}, "BRAVE_API_KEY=abcdef\n", 4, id="both"),
    ],
)
async def test_ipyboxs_example_of_a_key_for_a_server(
    tmp_path: Path, of_client: dict[str, str], of_file: str, length: int
) -> None:
    npx, work = stand_ins(tmp_path / "bin"), tmp_path / "work"
    work.mkdir()
    (work / ".env").write_text(of_file, encoding="utf-8")
    async with profile(work, "--approve", "auto", PATH=npx, **of_client) as (client, _):
        await text(client, "register_mcp_server", server_name="brave_search", server_params=BRAVE)
        found = await cell(client, SEARCH)
    assert found == f"3 pages about Python asyncio tutorial, found with a key of {length} characters"


@asynccontextmanager
async def tools_in(workspace: Path, registrar: Approver, **environ: str) -> AsyncGenerator[IpyboxTools]:
    """The tools of a connection in this process."""
    async with open_app(packages="any") as app:
        place = Workspace(root=workspace, variables=environ)
        app.runtime.folders = place.folders(app.settings, environ)
        tools = IpyboxTools(app, Bindings(), place, registration_in(place, app, registrar))
        yield tools
        await tools.close()


async def said(tools: IpyboxTools, name: str, failed: bool = True, **arguments: Any) -> str:
    answer = await tools.call(name, arguments, Caller(answers={}))
    assert isinstance(answer, Answer)
    assert answer.is_error is failed, answer.text
    return answer.text


@pytest.mark.req("I-024", "I-084")
async def test_bad_calls_say_what_is_wrong_and_change_nothing(tmp_path: Path) -> None:
    servers: dict[str, tuple[dict[str, Any], str]] = {
        "a missing variable": ({"command": "x", "env": {"A": "${NOT_SET_HERE}"}}, "NOT_SET_HERE"),
        "a command that .env decides": ({"command": "${HOME}/x"}, "write the command of a server out"),
        "a stored secret": ({"command": "x", "env": {"A": "${secret:other}"}}, "secret:other"),
        "a file of the host": ({"command": "x", "args": ["${file:/etc/passwd}"]}, "left out"),
        "leave that it gives itself": ({**ECHO, "moonpool": {"allow": ["*"]}}, "must not have 'moonpool'"),
        "no way to reach it": ({}, "left out"),
        "more than a person is shown": (
            {"command": "sh", "args": ["-c", f"true {'# nothing ' * 400}\ntouch x; exec y #{' tail' * 300}"]},
            "more than the 4,000 characters that a person is shown",
        ),
        "a program that is not there": ({"command": "/not/there"}, "the operator sees why"),
    }
    cells: dict[str, tuple[dict[str, Any], str]] = {
        "a syntax error": ({"code": "1 +"}, "SyntaxError"),
        "an exception, after what was printed": ({"code": "print('before'); 1/0"}, "before"),
        "too long": ({"code": "while True: pass", "timeout": 0.5}, "timeout of 0.50s (approval wait excluded)"),
        "no code": ({"code": ""}, "there is no code"),
        "an unknown argument": ({"code": "1", "cwd": "/"}, "cwd"),
        "a timeout that is none": ({"code": "1", "timeout": "soon"}, "timeout"),
    }
    registrar = ScriptedApprover([ApprovalState.APPROVED])
    async with tools_in(tmp_path, registrar) as tools:
        await said(tools, "execute_ipython_cell", False, code="kept = 7")
        for name in ("1x", "a-b", "class", "../x", "Upper"):
            assert "package" in await said(tools, "register_mcp_server", server_name=name, server_params=ECHO)
        for why, (params, told) in servers.items():
            told_by = await said(tools, "register_mcp_server", server_name="s", server_params=params)
            assert told in told_by, (why, told_by)
        assert len(registrar.requests) == 1  # only about the one that could be started
        for why, (arguments, told) in cells.items():
            told_by = await said(tools, "execute_ipython_cell", **arguments)
            assert told in told_by, (why, told_by)
        for package in ("git+https://example.org/x.git", "--index-url http://x", "../x", "six @ file:///x"):
            assert "package_specifier_invalid" in await said(tools, "install_package", package_name=package)
        assert await said(tools, "execute_ipython_cell", False, code="print(kept)") == "7"
        assert not list((tmp_path / "mcptools").iterdir())


async def test_nothing_is_started_that_a_person_did_not_allow(tmp_path: Path) -> None:
    started = tmp_path / "started"
    params = {"command": "/bin/sh", "args": ["-c", f"touch {started}"]}
    for state in (ApprovalState.REJECTED, ApprovalState.EXPIRED, ApprovalState.APPROVED):
        registrar = ScriptedApprover([state])
        async with tools_in(tmp_path, registrar) as tools:
            told_by = await said(tools, "register_mcp_server", server_name="sh", server_params=params)
            approved = state is ApprovalState.APPROVED  # then it is started, and is no MCP server
            assert ("is not registered" in told_by, started.exists()) == (not approved, approved)
            assert registrar.requests[0].human_only
            assert str(started) in registrar.requests[0].arguments
    async with tools_in(tmp_path, AutoApprover()) as tools:
        assert "wants a person" in await said(tools, "register_mcp_server", server_name="sh", server_params=params)
        assert await registrations("sh") == ["REJECTED", "EXPIRED", "APPROVED", "REJECTED"]


async def test_a_server_whose_package_cannot_be_written_is_neither_asked_about_nor_connected(tmp_path: Path) -> None:
    (tmp_path / "mcptools").touch()
    registrar = ScriptedApprover([])
    async with tools_in(tmp_path, registrar) as tools:
        told_by = await said(tools, "register_mcp_server", server_name="echo", server_params=ECHO)
        assert "cannot be the folder of packages: Not a directory" in told_by
        assert registrar.requests == []
        (tmp_path / "mcptools").unlink()
        code = "import servers.echo"
        assert "echo" in await said(tools, "execute_ipython_cell", code=code)


async def registrations(server_id: str) -> list[str]:
    """How registrations of this server were answered, as the journal has it."""
    records = await asyncio.to_thread(lambda: [json.loads(row.body) for row in read_rows(journal_path(DATA))])
    return [one["approval"] for one in records if (one.get("server_id"), one.get("tool_name")) == (server_id, REGISTER)]


@pytest.mark.req("I-043")
async def test_a_server_that_is_replaced_in_vain_stays_and_its_credential_stays_outside(tmp_path: Path) -> None:
    registrar = ScriptedApprover([ApprovalState.APPROVED])
    code = "from mcptools.keeper.environment import run\nprint(run())"
    async with tools_in(tmp_path, registrar, TOKEN_OF_IT="correct-horse-battery") as tools:
        params = {**ECHO, "env": {"API_TOKEN": "${TOKEN_OF_IT}"}}
        await said(tools, "register_mcp_server", False, server_name="keeper", server_params=params)
        for wrong in ({"command": "/not/there"}, {**ECHO, "env": {"API_TOKEN": "${UNSET}"}}):
            await said(tools, "register_mcp_server", server_name="keeper", server_params=wrong)
        told_by = await said(tools, "execute_ipython_cell", False, code=code, max_output_chars=100_000)
        assert "API_TOKEN" in told_by
        assert "correct-horse" not in told_by
        assert "correct-horse" not in str(registrar.requests)


IN_THE_FOLDER = """
import os, gentools.seen
def attempt(action):
    try:
        return action()
    except OSError as error:
        return error.strerror
print(gentools.seen.value, os.path.exists("link"), attempt(lambda: open(".env").read()))
print([attempt(lambda: change()) for change in (
    lambda: os.mkdir("mcptools/forgotten"),
    lambda: os.rename("mcptools", "other"),
    lambda: os.rmdir("/workspace/mcptools"),
    lambda: os.path.samefile(os.getcwd(), "/workspace"),
)])
os.symlink("/etc", "images")
"""


@pytest.mark.req("X-04", "I-086")
async def test_code_works_in_the_workspace_and_reaches_nothing_else(tmp_path: Path) -> None:
    secret, work = tmp_path / "secret", tmp_path / "work"
    secret.write_text("secret", encoding="utf-8")
    (work / "gentools").mkdir(parents=True)
    (work / "gentools" / "seen.py").write_text("value = 'seen'", encoding="utf-8")
    (work / ".env").write_text("A=b", encoding="utf-8")
    (work / "link").symlink_to(secret)
    async with tools_in(work, AutoApprover()) as tools:
        told_by = await said(tools, "execute_ipython_cell", False, code=IN_THE_FOLDER)
        first, second = told_by.splitlines()
        assert first == "seen False Permission denied"
        assert second == "['Read-only file system', 'Device or resource busy', 'Device or resource busy', True]"
        told_by = await said(tools, "execute_ipython_cell", code=f"print('before')\n{PICTURE}")
        assert told_by == "before\n\nThe images cannot be saved in images/: Too many levels of symbolic links"
        (work / "images").unlink()
        assert "- [" in await said(tools, "execute_ipython_cell", False, code=PICTURE)
        assert [path.read_bytes()[:4] for path in (work / "images").iterdir()] == [b"\x89PNG"]
        assert not list(work.glob("picture*"))  # it is in `images` only
        (work / "mcptools").rmdir()
        await said(tools, "reset", False)
        assert await said(tools, "execute_ipython_cell", False, code="print(gentools_seen := 1)") == "1"
        assert (work / "mcptools").is_dir()


@pytest.mark.req("I-086", "I-089")
def test_a_workspace_is_made_and_its_variables_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert enter_workspace(Path(), {}).root == tmp_path
    place = enter_workspace(Path("made/here"), {"A": "of the process"})
    assert (place.root, Path.cwd()) == (tmp_path / "made/here", place.root)
    Path(".env").write_text("A=of the file\nKERNEL_ENV_B=of the kernel\n", encoding="utf-8")
    again = enter_workspace(place.root, {"A": "of the process"})
    assert (again.variables["A"], again.kernel_variables) == ("of the process", {"B": "of the kernel"})
    assert place.kernel_variables == {}
    Path("mcptools").symlink_to(tmp_path)
    with pytest.raises(InputError, match="is a link"):
        again.make_packages()
    Path("file").touch()
    with pytest.raises(InputError, match="cannot be used"):
        enter_workspace(Path("file"), {})


@pytest.mark.req("I-086")
async def test_a_home_is_refused_before_anything_is_served(tmp_path: Path) -> None:
    command = [str(SCRIPT), "mcp", "--profile", "ipybox"]
    environ = {**os.environ, "MOONPOOL_DATA_DIR": str(DATA), "MOONPOOL_ENVIRONMENT": "base", "HOME": str(tmp_path)}
    with anyio.fail_after(60):
        ended = await anyio.run_process(command, cwd=tmp_path, env=environ, check=False)
    assert ended.returncode != 0
    assert b"it is a home" in ended.stderr
    assert ended.stdout == b""
    assert not list(tmp_path.iterdir())


async def approve_in_the_queue(tool: str) -> str:
    """Approve the waiting call of the server `echo`, as a person at a terminal; what was shown of it."""
    with anyio.fail_after(60):
        while True:
            with opened_approvals(Settings(), DATA) as approvals:
                for one in approvals.requests():
                    if (one.request.server_id, one.request.tool_name) == ("echo", tool):
                        answerer = Answerer(name="terminal:test", person=True)
                        approvals.approve(one.request_id, answerer)
                        return one.request.arguments
            await asyncio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.req("I-082")
async def test_a_client_that_cannot_ask_leaves_questions_in_the_queue(tmp_path: Path) -> None:
    async with profile(tmp_path, say=None) as (client, _), anyio.create_task_group() as tasks:
        tasks.start_soon(approve_in_the_queue, "register_mcp_server")
        await text(client, "register_mcp_server", server_name="echo", server_params=ECHO)
        tasks.start_soon(approve_in_the_queue, "echo")
        assert await cell(client, CALL) == '{"word": "hello"}'


@pytest.mark.slow
async def test_a_call_that_waits_in_the_queue_is_resumed_by_the_same_call(tmp_path: Path) -> None:
    register = {"server_name": "echo", "server_params": ECHO}
    async with profile(tmp_path, "--approve", "queue", MOONPOOL_APPROVAL_WAIT_S="0.5") as (client, asked):
        told_by = await text(client, "register_mcp_server", True, **register)
        assert "waits until a person approves echo.register_mcp_server" in told_by
        assert "call register_mcp_server again with exactly the same arguments" in told_by
        shown = await approve_in_the_queue("register_mcp_server")
        assert "echo.py" in shown
        assert "echo" in await text(client, "register_mcp_server", **register)
        assert asked == []


@pytest.mark.req("I-083")
async def test_a_reset_ends_what_waits_for_a_person(tmp_path: Path) -> None:
    """And what waits behind it. An installation is told that it waits, as code is."""
    servers = tmp_path / "servers.json"
    servers.write_text(json.dumps({"mcpServers": {"echo": {**ECHO, "moonpool": {"ask": ["*"]}}}}), encoding="utf-8")
    given = ("--approve", "queue", "--config", str(servers))
    asking = "kept = 1\nimport servers.echo as echo\nawait echo.echo(word='a')"
    async with profile(tmp_path / "work", *given, say=None, MOONPOOL_APPROVAL_WAIT_S="0.2") as (client, _):
        assert "waits until a person approves" in await cell(client, asking, failed=True)
        for name, arguments in (("execute_ipython_cell", {"code": "1"}), ("install_package", {"package_name": "six"})):
            assert "waits" in await text(client, name, True, **arguments)
        assert await text(client, "reset") == ""
        assert await cell(client, "print('kept' in dir())") == "False"
        assert "waits until a person approves" in await cell(client, asking, failed=True)  # begun anew


@pytest.mark.slow
@pytest.mark.req("I-083", "I-092")
async def test_calls_at_once_take_turns_and_a_cancelled_one_ends(tmp_path: Path) -> None:
    async with profile(tmp_path, "--approve", "auto") as (client, _):
        await cell(client, "done = []")
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(cell, client, f"done.append({number}); before = len(done); done.append({number})")
        pairs = "print(all(done[i] == done[i + 1] for i in range(0, 10, 2)), len(done))"
        assert await cell(client, pairs) == "True 10"
        with anyio.move_on_after(1):
            await cell(client, "kept = 1\nwhile True: pass")
        assert await cell(client, "print(kept, len(done))") == "1 10"
        assert "variables of this session are lost" in await cell(client, "import os\nos._exit(3)", failed=True)
        assert "NameError" in await cell(client, "done", failed=True)


@pytest.mark.slow
@pytest.mark.req("I-083")
async def test_the_environment_data_has_ipython_and_pictures_come_as_paths(tmp_path: Path) -> None:
    figure = "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2, 3]); plt.show()\nprint('drawn')"
    async with profile(tmp_path, MOONPOOL_ENVIRONMENT="data") as (client, _):
        assert await cell(client, "x = !echo from a shell\nx[0]") == "'from a shell'"
        told_by = await cell(client, figure)
        listed = re.findall(r"^- \[(\w+)\]\((.+)\)$", told_by, re.MULTILINE)
        assert told_by.startswith("drawn")
        assert "\n\nGenerated images:\n\n- [" in told_by
        assert [Path(path).stem for _, path in listed] == [name for name, _ in listed]
        assert [Path(path).read_bytes()[:4] for _, path in listed] == [b"\x89PNG"]
        assert Path(listed[0][1]).parent == tmp_path / "images"
        assert await cell(client, "await __import__('asyncio').sleep(0, 5)") == "5"


@pytest.mark.req("I-087")
def test_a_sandbox_configuration_names_domains_or_says_why_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "sandbox-config.json"

    def domains(path: Path | None) -> tuple[str, ...]:
        return rules_in_force(path).domains([tmp_path], [], os.environ)

    assert domains(None) == ()
    assert caplog.messages == []
    assert domains(path) == ()
    assert "was not there and was made, with the default rules: no network" in caplog.text
    assert json.loads(path.read_text(encoding="utf-8"))["filesystem"]["allowWrite"] == ["."]
    path.write_text(json.dumps({"network": {"allowedDomains": ["example.org"]}}), encoding="utf-8")
    assert domains(path) == ("example.org",)
    path.write_text(json.dumps({"filesystem": {"allowWrite": [".", "/srv"]}}), encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot grant '/srv'"):
        domains(path)
    with pytest.raises(ConfigError, match="cannot be made"):
        domains(tmp_path / "missing" / "rules.json")


ATTACKS = """
def attempt(*change):
    try:
        change[0](*change[1:])
        return "done"
    except OSError:
        return "refused"
def write(path, text):
    with open(path, "w") as file:
        file.write(text)
import json, os
grant = json.dumps({"network": {"allowedDomains": ["evil.example"]}})
aside = "of-code.json"
write(aside, grant)
print([attempt(write, "sandbox-config.json", grant), attempt(os.replace, aside, "sandbox-config.json"),
       attempt(os.rename, "sandbox-config.json", "away"), attempt(write, ".env", "API_URL=https://evil.example")])
"""
SEEN = "import os\nprint([name for name in os.environ if 'proxy' in name.lower()])"


@pytest.mark.req("I-086", "I-087")
async def test_code_decides_nothing_for_the_next_start(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    given = ("--sandbox", "--sandbox-config", "sandbox-config.json")
    async with profile(work, *given, cwd=work) as (client, _):
        assert await cell(client, ATTACKS) == str(["refused"] * 4)
    assert ((work / ".env").read_bytes(), "evil" in (work / "sandbox-config.json").read_text("utf-8")) == (b"", False)
    own = tmp_path / "own.json"
    own.write_text(json.dumps({"network": {"allowedDomains": ["allowed.example"]}}), encoding="utf-8")
    async with profile(work, *given, cwd=work) as (client, _):
        assert await cell(client, SEEN) == "[]"
    async with profile(work, "--sandbox-config", "own.json", cwd=tmp_path) as (client, _):  # where it was called
        assert "HTTPS_PROXY" in (await cell(client, SEEN)).upper()


CALL_AND_STAY = """
from mcptools.echo import text
open("on", "w").write(text.run(text.Params(text="called")))
while True:
    pass
"""


@pytest.mark.req("I-092")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_during_a_cell_ends_kernel_and_servers(tmp_path: Path, number: signal.Signals) -> None:
    mark, on = str(tmp_path), tmp_path / "on"
    await generate_mcp_sources("echo", {**ECHO, "env": {"OF_THIS_TEST": mark}}, tmp_path / "mcptools")
    given = ["--profile", "ipybox", "--workspace", str(tmp_path), "--approve", "auto"]

    def served() -> None:
        with RawClient(command=[str(SCRIPT), "mcp", *given]) as client:
            client.handshake()
            client.request("tools/call", {"name": "execute_ipython_cell", "arguments": {"code": CALL_AND_STAY}})
            wait_until(lambda: on.exists() and on.read_bytes() == b"called", within_s=60)
            family = descendants_of(client.process.pid)
            assert len({int(pid) for pid in processes_with(mark)} & family) == 1
            client.process.send_signal(number)
            assert client.process.wait(PATIENCE_S) == 0
            assert wait_gone(family, PATIENCE_S) == set()

    await asyncio.to_thread(served)


@pytest.mark.req("I-088")
def test_the_other_options_of_ipybox_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = ["--tool-server-host", "h", "--tool-server-port", "1", "--kernel-gateway-host", "h"]
    given = [*ports, "--kernel-gateway-port", "2", "--log-level", "DEBUG", "--sandbox"]
    assert mcp.make_context("mcp", ["--profile", "ipybox", *given]).params["log_level"] == "DEBUG"
    for wrong in (["--tool-server-port", "x"], ["--log-level", "LOUD"]):
        with pytest.raises(click.UsageError):
            mcp.make_context("mcp", ["--profile", "ipybox", *wrong])
    monkeypatch.setattr(logging, "lastResort", logging.NullHandler(logging.WARNING))
    monkeypatch.setattr(logging.getLogger("moonpool"), "level", logging.NOTSET)
    log_from("DEBUG")
    assert logging.lastResort is not None
    assert logging.lastResort.level == logging.getLogger("moonpool").level == logging.DEBUG


@pytest.mark.slow
@pytest.mark.req("I-084", "I-085")
async def test_an_installed_package_stays_through_a_reset(tmp_path: Path) -> None:
    index = Path(tempfile.mkdtemp(prefix="index-", dir=run_folder()))  # not in /tmp, which a sandbox has for itself
    index.chmod(0o755)
    Index(index).add("tinything", "1.2", files={"tinything.py": "size = 'tiny'\n"})
    async with profile(tmp_path, MOONPOOL_PACKAGE_INDEX=(index / "simple").as_uri()) as (client, _):
        assert await text(client, "install_package", package_name="tinything>=1") == "installed tinything==1.2"
        for _ in range(2):
            assert await cell(client, "import tinything\nprint(tinything.size)") == "tiny"
            await text(client, "reset")
