"""What ipybox 0.9.2 was measured to do wrong, and promises of its documentation, through its own interface."""

from __future__ import annotations

import re
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from apps import fixture_server
from moonpool.ipybox import (
    ApprovalRequest,
    CodeExecutionError,
    CodeExecutionResult,
    CodeExecutor,
    generate_mcp_sources,
    options,
)
from moonpool.ipybox.kernel_mgr.server import KernelGateway

pytestmark = pytest.mark.anyio

SERVER = {key: value for key, value in fixture_server("echo.py").items() if key != "moonpool"}
ALL_AT_ONCE = """
import asyncio
from mcptools.echo import text
called = await asyncio.gather(*(text.run_async(text.Params(text=str(n))) for n in range(10)))
print(called)
"""
DEATHS = [
    ("import os; os._exit(3)", "KernelExited"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "SIGTERM"),
    ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
]
STATE = "import os; print(os.environ['A'], 'x' in globals())"
NATIVE = """
import ctypes, os, _posixsubprocess, subprocess
def attempt(read):
    try:
        return read()
    except Exception as error:
        return type(error).__name__
def forked():
    out, into = os.pipe()
    if not (pid := os.fork()):
        os.dup2(into, 1); os.execv('/bin/cat', ['cat', PATH])
    os.close(into); os.waitpid(pid, 0)
    return os.read(out, 100)
ways = [
    lambda: open(PATH).read(),
    lambda: ctypes.CDLL(None).system(f'cat {PATH}'.encode()),
    lambda: subprocess.check_output(['cat', PATH]),
    forked,
]
seen = [attempt(way) for way in ways]
import socket
for address in (('127.0.0.1', PORT), ('169.254.169.254', 80)):
    seen.append(attempt(lambda: socket.create_connection(address, timeout=5)))
for address in SOCKETS:
    seen.append(attempt(lambda: socket.socket(socket.AF_UNIX).connect(address)))
print(seen)
"""
READER = """
from serving import Tools, serve, text
tools = Tools("reader")
async def read(arguments):
    try:
        return text(open(arguments["path"]).read())
    except OSError as error:
        return text(str(error), isError=True)
schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
tools.add("read", read, description="Read a file.", inputSchema=schema)
serve(tools, [])
"""


async def unasked(executor: CodeExecutor, code: str) -> None:
    async for _ in executor.stream(code):
        raise AssertionError("nobody is asked about a call that is not made")


@pytest.mark.req("I-071", "P-005", "P-019")
async def test_a_kernel_that_dies_is_told_at_once_with_its_cause_and_replaced() -> None:
    async with CodeExecutor(kernel_env={"A": "kept"}) as executor:
        for code, cause in DEATHS:
            with anyio.fail_after(60), pytest.raises(CodeExecutionError, match=cause):
                await executor.execute(f"x = 1\n{code}")  # without a timeout
            assert (await executor.execute(STATE)).text == "kept False"


@pytest.mark.slow  # a second of grace; the engine has a quick test
@pytest.mark.req("P-004")
async def test_code_that_cannot_be_interrupted_is_killed_and_the_message_says_what_is_lost() -> None:
    async with CodeExecutor(kernel_env={"A": "kept"}) as executor:
        with anyio.fail_after(60), pytest.raises(TimeoutError, match=r"0\.20s.*variables of this session are lost"):
            await executor.execute("x = 1\nsum(range(10**12))", timeout=0.2)
        assert (await executor.execute(STATE)).text == "kept False"


@pytest.mark.slow  # resets take half a second each
@pytest.mark.req("P-008", "P-009")
async def test_the_first_output_after_a_start_or_reset_is_there_and_100_000_lines_are() -> None:
    async with CodeExecutor() as executor:
        for number in range(3):
            assert (await executor.execute(f"print({number})")).text == str(number)
            await executor.reset()
        result = await executor.execute("for n in range(100_000): print(n)")
        assert result.text == "\n".join(map(str, range(100_000)))


@pytest.mark.slow  # a second of redaction
@pytest.mark.req("P-009")
async def test_of_20_megabytes_of_output_head_and_tail_come_and_the_name_of_the_file_with_all() -> None:
    async with CodeExecutor() as executor:
        text = (await executor.execute("print('a' * 10_000_000 + 'b' * 10_000_000)")).text
        assert text is not None
        head, note, tail = text.split("\n")
        assert (set(head), set(tail)) == ({"a"}, {"b"})
        assert 8_000_000 < len(text) <= 8 * 1024**2
        found = re.fullmatch(r"\[\.\.\. of 20,000,001 bytes the middle is left out; all of it: (.+) \.\.\.\]", note)
        assert found is not None
        assert Path(found[1]).read_text(encoding="utf-8") == "a" * 10_000_000 + "b" * 10_000_000 + "\n"
        assert (await executor.execute("print('fine')")).text == "fine"


@pytest.mark.req("I-028", "I-072")
async def test_two_run_at_once_and_no_port_is_opened() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    async with (
        KernelGateway(port=port),
        CodeExecutor() as one,
        CodeExecutor(tool_server_port=port, kernel_gateway_port=port) as two,
    ):
        await one.execute("x = 1")
        await two.execute("x = 2")
        assert [(await each.execute("print(x)")).text for each in (one, two)] == ["1", "2"]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()


@pytest.mark.req("I-078", "I-079", "X-25", "P-020", "P-022", "P-023")
async def test_code_is_in_a_sandbox_whatever_is_asked_for_and_that_is_said_once(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(options, "_told", set[str]())
    secret = tmp_path_factory.mktemp("home") / ".ssh" / "id_ed25519"
    secret.parent.mkdir()
    secret.write_text("private", encoding="utf-8")
    sockets = [f"\0{secret.parent}", str(secret.with_name("agent"))]  # as another session or a program may have
    with ExitStack() as open_now:
        for address in sockets:
            unix = open_now.enter_context(socket.socket(socket.AF_UNIX))
            unix.bind(address)
            unix.listen()
        listener = open_now.enter_context(socket.create_server(("127.0.0.1", 0)))
        code = f"PATH, PORT, SOCKETS = {str(secret)!r}, {listener.getsockname()[1]}, {sockets}\n{NATIVE}"
        for sandbox in (False, False, True):
            async with CodeExecutor(sandbox=sandbox, log_level="INFO") as executor:
                seen = (await executor.execute(code)).text or ""
            assert "private" not in seen
            refused = ["FileNotFoundError", 256, "CalledProcessError", b"", *["OSError"] * 4]
            assert seen.endswith(str(refused)), seen
    assert [record.message for record in caplog.records if "sandbox" in record.message] == [
        "sandbox=False: code runs in a sandbox all the same"
    ]


@pytest.mark.req("X-10")
async def test_secrets_among_the_variables_are_redacted() -> None:
    env = {"API_TOKEN": "geheim-4711", "REGION": "eu west", "OTHER": "q7Xz90KfLm2PwR8t"}
    async with CodeExecutor(kernel_env=env) as executor:
        code = "import os; print([len(os.environ[n]) for n in ENV], [os.environ[n] for n in ENV])"
        text = (await executor.execute(f"ENV = {list(env)}\n{code}")).text or ""
    assert text.startswith("[11, 7, 16]")
    assert "eu west" in text
    assert "geheim-4711" not in text
    assert "q7Xz90KfLm2PwR8t" not in text


@pytest.mark.req("I-067")
async def test_answers_in_any_order_find_their_calls() -> None:
    await generate_mcp_sources("echo", SERVER, Path("mcptools"))
    async with CodeExecutor() as executor:
        asked: list[ApprovalRequest] = []
        async for item in executor.stream(ALL_AT_ONCE):
            if isinstance(item, ApprovalRequest):
                asked.append(item)
                if len(asked) == 10:
                    for request in reversed(asked):
                        await request.accept()
            else:
                assert isinstance(item, CodeExecutionResult)
                assert item.text == str([str(number) for number in range(10)])


@pytest.mark.slow  # waits longer than a timeout; `Deadline` has a quick test
@pytest.mark.req("I-040", "X-14")
async def test_waiting_for_an_answer_does_not_count() -> None:
    await generate_mcp_sources("echo", SERVER, Path("mcptools"))
    async with CodeExecutor() as executor:
        await executor.execute("from mcptools.echo import text")
        with anyio.fail_after(60):
            async for item in executor.stream("print(text.run(text='hi'))", timeout=2):
                if isinstance(item, ApprovalRequest):
                    with anyio.move_on_after(2.5):
                        await anyio.Event().wait()
                    await item.accept()
                else:
                    assert item == CodeExecutionResult(text="hi", images=[])


@pytest.mark.req("I-013", "I-016", "I-077")
async def test_what_keeps_a_call_from_its_server_is_an_error_that_says_so(project: Path) -> None:
    server, masked = project / "server.py", project / ".env"
    masked.write_text("TOKEN=1", encoding="utf-8")
    folder = Path(SERVER["args"][0]).parent
    server.write_text(f"import runpy, sys\nsys.path.insert(0, {str(folder)!r})\n{READER}", encoding="utf-8")
    outer = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--ro-bind", "/dev/null", str(masked)]
    params: dict[str, Any] = {"command": "bwrap", "args": [*outer, sys.executable, str(server)]}
    await generate_mcp_sources("reader", params, Path("mcptools"))
    async with CodeExecutor() as executor:
        wrong = "from mcptools.reader import read\nread.run(read.Params(path=5))"
        with pytest.raises(CodeExecutionError, match=r"(?s)ValidationError.*path"):
            await unasked(executor, wrong)
        with pytest.raises(CodeExecutionError, match="Permission denied"):
            await executor.execute(f"read.run(read.Params(path={str(masked)!r}))")


@pytest.mark.slow  # tries more than once
@pytest.mark.req("I-046")
async def test_a_server_that_does_not_answer_is_given_up_after_the_connect_timeout(project: Path) -> None:
    hangs = project / "hangs"
    gate = Path(SERVER["args"][0]).with_name("gate.py")
    code = f"import pathlib, runpy, time\npathlib.Path({str(hangs)!r}).exists() and time.sleep(600)\n"
    params = {"command": sys.executable, "args": ["-c", f"{code}runpy.run_path({str(gate)!r})"]}
    await generate_mcp_sources("gate", params, Path("mcptools"))
    hangs.touch()
    async with CodeExecutor(connect_timeout=0.3) as executor:
        with anyio.fail_after(60), pytest.raises(CodeExecutionError, match="did not answer the handshake in time"):
            await executor.execute(f"from mcptools.gate import tell\ntell.run(tell.Params(path={str(hangs)!r}))")
