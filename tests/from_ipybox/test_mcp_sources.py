"""`generate_mcp_sources`: packages of tools, and the servers that stand behind them."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

import moonpool
from apps import DATA, fixture_server
from from_ipybox.processes import processes_with
from moonpool.ipybox import (
    ApprovalRequest,
    CodeExecutionError,
    CodeExecutionResult,
    CodeExecutor,
    ToolServer,
    generate_mcp_sources,
    mcp_apigen,
)
from moonpool.ipybox.__main__ import main
from moonpool.ipybox.mcp_apigen import write_package
from moonpool.ipybox.registered_servers import registered
from moonpool.ipybox.utils import arun

pytestmark = pytest.mark.anyio

SERVER: dict[str, Any] = {key: value for key, value in fixture_server("echo.py").items() if key != "moonpool"}


@pytest.mark.req("I-003")
async def test_arun_calls_in_a_thread() -> None:
    def power(base: int, *, exponent: int) -> int:
        return base**exponent

    assert await arun(power, 2, exponent=5) == 32


@pytest.mark.req("I-009", "I-010", "I-012")
async def test_a_package_has_a_module_for_each_tool() -> None:
    made = await generate_mcp_sources("echo", SERVER, Path("mcptools"))
    files = {path.stem for path in Path("mcptools/echo").glob("*.py")} - {"__init__", "_client"}
    assert files == set(made)
    assert "class Params(Model)" in Path("mcptools/echo/text.py").read_text(encoding="utf-8")


@pytest.mark.req("I-011", "I-101")
async def test_a_package_is_replaced_when_the_new_one_is_complete(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("kept", encoding="utf-8")
    root = tmp_path / "mcptools"
    root.mkdir()
    (root / "echo").symlink_to(outside)
    await generate_mcp_sources("echo", SERVER, root)
    assert not (root / "echo").is_symlink()
    assert (outside / "kept.txt").read_text(encoding="utf-8") == "kept"
    (root / "echo" / "stale.py").write_text("", encoding="utf-8")
    with pytest.raises(moonpool.MoonpoolError, match="echo"):
        await generate_mcp_sources("echo", {"command": "/nowhere/at/all"}, root)
    assert (root / "echo" / "stale.py").exists()
    await generate_mcp_sources("echo", SERVER, root)
    assert not (root / "echo" / "stale.py").exists()
    assert [path.name for path in root.iterdir()] == ["echo"]


async def test_what_code_does_in_the_folder_meanwhile_leads_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside, root, moved = tmp_path / "outside", tmp_path / "mcptools", tmp_path / "moved"
    (outside / "echo").mkdir(parents=True)
    root.symlink_to(outside)
    with pytest.raises(moonpool.InputError, match="it is a link"):
        await generate_mcp_sources("echo", SERVER, root)
    root.unlink()

    write = mcp_apigen._write_files

    def swap(*given: Any) -> None:  # between writing the package and putting it in its place
        write(*given)
        root.rename(moved)
        root.symlink_to(outside)

    monkeypatch.setattr(mcp_apigen, "_write_files", swap)
    await generate_mcp_sources("echo", SERVER, root)
    assert list(outside.rglob("*")) == [outside / "echo"]
    assert [path.name for path in moved.iterdir()] == ["echo"]


@pytest.mark.parametrize("fails", ["register", "rename"])
async def test_package_and_registration_are_replaced_together_or_not_at_all(
    project: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    root = project / "mcptools"
    await generate_mcp_sources("echo", SERVER, root)
    (root / "echo" / "first.py").touch()
    rename = os.rename

    def fail(*given: Any, **options: Any) -> None:
        if fails == "register" or (str(given[0]).startswith(".") and "before" not in str(given[0])):
            raise OSError(errno.ENOSPC, "No space left on device")
        rename(*given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(mcp_apigen if fails == "register" else os, fails, fail)
        with pytest.raises(moonpool.InputError, match="No space left on device"):
            await generate_mcp_sources("echo", {**SERVER, "env": {"A": "1"}}, root)
    assert [path.name for path in root.iterdir()] == ["echo"]
    assert (root / "echo" / "first.py").exists()
    assert registered([root], os.environ) == {"echo": SERVER}


def test_the_commands_of_mcpygen(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["moonpool.ipybox", *arguments])
        main()
        return capsys.readouterr().out

    given = ["--server-name", "echo", "--root-dir", "mcptools", "--async", "--server-params"]
    assert "text" in run("apigen", *given, json.dumps(SERVER)).splitlines()
    assert "async def run(" in (project / "mcptools/echo/text.py").read_text(encoding="utf-8")
    for wrong in (["apigen", *given, "{"], ["apigen", *given, "{}"], ["toolserver", "--host", "0.0.0.0"]):  # noqa: S104
        with pytest.raises(SystemExit, match=r"^python -m moonpool\.ipybox: "):
            run(*wrong)


async def test_links_that_code_makes_meanwhile_are_not_written_through(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, tree = project / "kept", project / "tree/mcptools/echo"
    tree.mkdir(parents=True)
    kept.write_text("kept", encoding="utf-8")
    (tree / "text.py").write_text("x = 1", encoding="utf-8")
    original = os.open

    def opened(path: Any, flags: int, *given: Any, **options: Any) -> int:
        if path == "_client.py":  # the last moment
            (next((project / "mcptools").glob(".echo-*")) / path).symlink_to(kept)
        return original(path, flags, *given, **options)

    monkeypatch.setattr(os, "open", opened)
    snapshot: Any = SimpleNamespace(tree=project / "tree")
    with pytest.raises(moonpool.InputError, match="cannot be written"):
        write_package(snapshot, "echo", SERVER, project / "mcptools")
    assert kept.read_text(encoding="utf-8") == "kept"
    assert list((project / "mcptools").iterdir()) == []


USED_OUTSIDE = """
import asyncio, sys
from mcptools.echo import fail
from mcptools.echo.length import Params, run
from mcptools.echo.text import Params as Text, run as say
from moonpool.ipybox import ToolRunnerError

print(type(Params(text="abc")).__mro__[1].__name__, Params(text="abc").model_dump(), run(Params(text="abc")))
print(asyncio.run(say(Text(text="é"))) if "async" in sys.argv else say(Text(text="é")))
from mcptools.echo.text import upper
print(upper("parsed"))
from mcptools.other import text as another  # a second package in one process
try:
    fail.run()
except ToolRunnerError as error:
    print(error)
"""


WHERE_IT_CALLS = """
import os
from mcptools.echo import fail
from moonpool.ipybox import ToolRunnerError

for environ in ({}, {"TOOL_SERVER_HOST": "127.0.0.2"}, {"TOOL_SERVER_HOST": "127.0.0.3", "TOOL_SERVER_PORT": "1"}):
    os.environ.update(environ)
    try:
        fail.run()
    except ToolRunnerError as error:
        print(error)
"""


@pytest.mark.req("I-061")
async def test_a_package_calls_the_address_of_two_variables_with_ipyboxs_defaults(project: Path) -> None:
    await generate_mcp_sources("echo", SERVER, project / "mcptools")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TOOL_SERVER_")}
    told = await anyio.run_process([sys.executable, "-c", WHERE_IT_CALLS], env={**environ, "PYTHONPATH": str(project)})
    assert told.stdout.decode().splitlines() == [
        f"no tool server of yours runs at {place}; start a ToolServer"
        for place in ("localhost:8900", "127.0.0.2:8900", "127.0.0.3:1")
    ]


@pytest.mark.req("I-061", "I-100", "I-101", "X-28")
async def test_a_package_imports_outside_a_sandbox_and_calls_a_tool_server(project: Path) -> None:
    parser = project / "mcpparse" / "echo" / "text.py"
    parser.parent.mkdir(parents=True)
    parser.write_text("def upper(text): return text.upper()\n", encoding="utf-8")
    await generate_mcp_sources("echo", SERVER, project / "mcptools")
    await generate_mcp_sources("echo", SERVER, project / "mcptools")  # again
    await generate_mcp_sources("other", SERVER, project / "mcptools")
    async with ToolServer(port=0) as server:
        environ = {**os.environ, "TOOL_SERVER_PORT": str(server.port), "PYTHONPATH": str(project)}
        told = await anyio.run_process([sys.executable, "-c", USED_OUTSIDE], env=environ)
    assert told.stdout.decode().splitlines() == [
        "Model {'text': 'abc'} Result(length=3)"
        if "class Result" in (project / "mcptools/echo/length.py").read_text(encoding="utf-8")
        else "Model {'text': 'abc'} {\"length\": 3}",
        "é",
        "PARSED",
        "it went wrong",
    ]


async def test_an_async_package_is_awaited_outside_and_in_the_kernel(project: Path) -> None:
    await generate_mcp_sources("echo", SERVER, project / "mcptools", async_api=True)
    text = (project / "mcptools/echo/text.py").read_text(encoding="utf-8")
    assert "\nasync def run(" in text
    assert "\ndef run_sync(" in text
    code = """
from mcptools.echo.text import Params, run, run_sync
print(await run(Params(text="a")), run_sync(Params(text="b")))
"""
    async with CodeExecutor() as executor:
        assert (await executor.execute(code)).text == "a b"
    await generate_mcp_sources("echo", SERVER, project / "mcptools")
    async with CodeExecutor() as executor:
        assert (await executor.execute(code.replace("await ", "").replace("run_sync", "run"))).text == "a b"


@pytest.mark.req("I-024")
async def test_names_that_cannot_be_packages_are_refused() -> None:
    for name in ("1x", "a-b", "class", "../x", "", "_x"):
        with pytest.raises(ValueError, match="cannot be the name of a package"):
            await generate_mcp_sources(name, SERVER, Path("mcptools"))
    with pytest.raises(ValueError, match="call it 'github'"):
        await generate_mcp_sources("GitHub", SERVER, Path("mcptools"))
    assert not Path("mcptools").exists()


@pytest.mark.req("I-005", "I-018", "I-020", "I-021", "I-022", "I-043", "X-27")
async def test_placeholders_stay_with_the_host_and_their_values_are_never_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {**SERVER, "env": {"FROM_ENV": "${OF_ENV}", "FROM_FILE": "${OF_FILE}"}}
    with pytest.raises(moonpool.ConfigError, match="OF_ENV"):
        await generate_mcp_sources("echo", given, Path("mcptools"))
    assert not Path("mcptools").exists()
    monkeypatch.setenv("OF_ENV", "v4lue-of-env")
    Path(".env").write_text("# a comment\nOF_ENV=other\nexport OF_FILE='v4lue of file'  # why\n", encoding="utf-8")
    await generate_mcp_sources("echo", given, Path("mcptools"))
    generated = "".join(path.read_text(encoding="utf-8") for path in Path("mcptools").rglob("*.py"))
    kept = "".join(path.read_text(encoding="utf-8") for path in (DATA / "private" / "ipybox").glob("*.json"))
    assert [
        name for name in ("OF_ENV", "OF_FILE", "v4lue", SERVER["command"], "server_params") if name in generated
    ] == []
    assert ("${OF_ENV}" in kept, "v4lue" in kept) == (True, False)
    code = """
from mcptools.echo import environment
import os
import json
seen = json.loads(environment.run())
reached = [bool(seen[name]) and "${" not in seen[name] for name in ("FROM_ENV", "FROM_FILE")]
print(reached, [name for name in os.environ if name.startswith("OF_")])
"""
    async with CodeExecutor() as executor:
        assert (await executor.execute(code)).text == "[True, True] []"


@pytest.mark.req("I-025", "I-044", "I-081")
async def test_a_new_package_is_imported_in_the_same_kernel_and_asked_about(tmp_path: Path) -> None:
    code = "from mcptools.echo import text\nprint(text.run(text.Params(text='a')))"
    async with CodeExecutor(kernel_env={"PYTHONPATH": str(tmp_path / "library")}) as executor:
        with pytest.raises(CodeExecutionError, match="no server is configured"):
            await executor.execute(f"x = 1\n{code}")
        server = {**SERVER, "env": {"OF_THIS_TEST": str(tmp_path)}}
        await generate_mcp_sources("ruled", {**server, "moonpool": {"deny": ["*"]}}, Path("mcptools"))
        await generate_mcp_sources("awaited", server, Path("mcptools"), async_api=True)
        await generate_mcp_sources("echo", server, tmp_path / "library" / "mcptools")
        asked: list[str] = []
        async for item in executor.stream(f"{code}\nprint(x)"):
            if isinstance(item, ApprovalRequest):
                asked.append(str(item))
                await item.accept()
            else:
                assert item == CodeExecutionResult(text="a\n1", images=[])
        assert asked == ["echo.text(text='a')"]
        code_of_awaited = "from mcptools.awaited.text import Params, run\nprint(x, await run(Params(text='b')))"
        assert (await executor.execute(code_of_awaited)).text == "1 b"
        with pytest.raises(CodeExecutionError, match="has no 'ruled'"):  # its rules are read at a start
            await executor.execute("import mcptools.ruled.text")
        await executor.reset()
        with pytest.raises(CodeExecutionError, match="PolicyDenied"):
            await executor.execute("from mcptools.ruled import text\ntext.run({'text': 'a'})")
        assert (await executor.execute(code)).text == "a"
        before = await asyncio.to_thread(processes_with, str(tmp_path))
        await executor.reset()  # which ends the servers
        assert (await executor.execute(code)).text == "a"
        after = await asyncio.to_thread(processes_with, str(tmp_path))
        assert len(before) == len(after) == 1
        assert before != after
    assert not await asyncio.to_thread(processes_with, str(tmp_path))
