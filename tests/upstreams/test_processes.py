"""Children of the broker: what they inherit, and that none of them is ever left."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from moonpool.sandboxes import code_writable
from moonpool.upstreams.base import UpstreamStartError
from moonpool.upstreams.line_buffer import ArrivedLines, OversizedLine
from moonpool.upstreams.process import HELD_OPEN_S, STDERR_BYTES_MAX, open_process
from upstreams.peers import QUICK, SECRET, command, configure, raw, upstream

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject

pytestmark = pytest.mark.anyio


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def entry(code: str, *arguments: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-c", code, *arguments]}


def opened(given: dict[str, Any], **options: Any) -> Any:
    return open_process(configure({"srv": given}).servers[0], dict(os.environ), times=QUICK, **options)


async def test_a_command_does_not_start_where_code_of_a_sandbox_may_write(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    here = "import os; print(os.getcwd(), flush=True)"
    for written, given, told in (
        (False, entry(here), str(tmp_path)),
        (True, entry(here), "/"),
        (True, entry(here, "./file.py"), str(tmp_path)),  # it says so
        (True, {**entry(here), "cwd": str(tmp_path)}, str(tmp_path)),
    ):
        monkeypatch.setattr(code_writable, "_written", {(tmp_path, ())} if written else set())
        with anyio.fail_after(30):
            async with opened(given) as process:
                assert await process.receive_line() == told.encode(), given


async def test_a_command_is_not_looked_up_where_code_of_a_sandbox_may_write(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("elsewhere", "code/bin"):
        (tool := tmp_path / name / "a-tool").parent.mkdir(parents=True)
        tool.write_text(f"#!/bin/sh\necho {name}\n", encoding="utf-8")
        tool.chmod(0o755)
    (tmp_path / "link").symlink_to("code/bin")
    monkeypatch.chdir(tmp_path / "code/bin")
    path = os.pathsep.join(["", *(str(tmp_path / name) for name in ("link", "code/bin", "elsewhere"))])
    monkeypatch.setenv("PATH", path)
    for written, env, told in ((False, {}, "code/bin"), (True, {}, "elsewhere"), (True, {"PATH": path}, "code/bin")):
        monkeypatch.setattr(code_writable, "_written", {(tmp_path / "code", ())} if written else set())
        with anyio.fail_after(30):
            async with opened({"command": "a-tool", "env": env}) as process:
                assert await process.receive_line() == told.encode()
    assert code_writable.without_code(f":{tmp_path}/code") == os.defpath


async def logged(log: Path, word: str) -> None:
    path = anyio.Path(log)
    while not (await path.exists() and word in await path.read_text(encoding="utf-8")):
        await anyio.lowlevel.checkpoint()


async def environment_of(environ: dict[str, str], **members: Any) -> JsonObject:
    with anyio.fail_after(30):
        async with upstream(command("echo.py", **members), environ=environ) as srv:
            result = await srv.call_tool("environment", {}, timeout_s=20)
    shown = result["structuredContent"]
    assert isinstance(shown, dict)
    return shown


@pytest.mark.req("G-007", "B-013")
async def test_a_child_inherits_the_safe_few_and_what_is_configured() -> None:
    ours = {"PATH": os.environ["PATH"], "HOME": "/home/x", "AWS_SECRET": "s3cr3t", "TERM": "() { evil; }", "USER": "u"}
    shown = await environment_of(ours, env={"USER": "configured", "EXTRA": "${TOKEN}"})
    assert {name: shown.get(name) for name in ("HOME", "USER", "EXTRA")} == {
        "HOME": "/home/x", "USER": "configured", "EXTRA": SECRET,
    }  # fmt: skip
    assert not {"AWS_SECRET", "TERM"} & set(shown)


@pytest.mark.req("B-002")
async def test_arguments_pass_without_a_shell(tmp_path: Path) -> None:
    folder = tmp_path / "a folder; with $HOME"
    folder.mkdir()
    program = folder / "my server"
    program.symlink_to(sys.executable)
    code = "import sys; print(sys.argv[1:], flush=True)"
    with anyio.fail_after(30):
        async with opened({"command": str(program), "args": ["-c", code, "a b", "*"]}) as process:
            assert await process.receive_line() == b"['a b', '*']"


@pytest.mark.req("A-031", "A-052")
@pytest.mark.parametrize(
    ("mode", "order"), [("ignores-eof", ["EOF", "TERM"]), ("ignores-term", ["EOF", "TERM"]), ("good", [])]
)
async def test_stop_closes_stdin_then_terms_then_kills(mode: str, order: list[str], tmp_path: Path) -> None:
    log = tmp_path / "log"
    with anyio.fail_after(30):
        async with opened(raw(mode, log)) as process:
            await process.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            await process.receive_line()
            pid = process.pid
    assert [line for line in log.read_text(encoding="utf-8").splitlines() if line in {"EOF", "TERM"}] == order
    assert not alive(pid)


async def test_a_stop_that_is_itself_cancelled_kills_the_group_all_the_same(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with anyio.fail_after(30):
        async with opened(raw("grandchild", log)) as process:
            await logged(log, "\n")
            grandchild = int(log.read_text(encoding="utf-8").split()[0])
            with anyio.CancelScope() as stopping:
                stopping.cancel()
                await process.stop(QUICK)
            while alive(grandchild) or alive(process.pid):
                await anyio.lowlevel.checkpoint()
    assert stopping.cancelled_caught


@pytest.mark.req("A-052")
async def test_children_that_outlive_the_server_are_killed_too(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with anyio.fail_after(30):
        async with opened(raw("grandchild", log)) as process:
            await logged(log, "\n")
            grandchild = int(log.read_text(encoding="utf-8").split()[0])
            assert alive(grandchild)
            del process
    assert not alive(grandchild)


@pytest.mark.req("A-055")
async def test_a_cancelled_owner_leaves_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    pids: list[int] = []

    async def hold() -> None:
        async with opened(raw("grandchild", log)) as process:
            pids.append(process.pid)
            await anyio.sleep_forever()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
            await logged(log, "\n")
            tasks.cancel_scope.cancel()
    pids.append(int(log.read_text(encoding="utf-8").split()[0]))
    assert not any(alive(pid) for pid in pids)


async def test_output_ends_although_a_grandchild_holds_the_pipe() -> None:
    code = "import subprocess,sys; subprocess.Popen(['sleep', '60']); print('x', flush=True)"
    with anyio.fail_after(30):
        async with opened(entry(code)) as process:
            assert await process.receive_line() == b"x"
            with pytest.raises(anyio.EndOfStream):
                await process.receive_line()


async def test_a_server_that_reads_nothing_does_not_keep_a_stop_waiting() -> None:
    with anyio.fail_after(60):
        async with opened(entry("import time; time.sleep(600)")) as process:
            with anyio.move_on_after(0.2):
                await process.send(b"x" * 10_000_000 + b"\n")
            with anyio.fail_after(20):
                await process.send(b"cancel\n", patient=False)
            pid = process.pid
    assert not alive(pid)


async def test_a_flood_of_lines_is_held_back_and_none_is_lost() -> None:
    code = "import sys\nfor n in range(40): sys.stdout.write(str(n) + 'x' * 1000000 + '\\n')"
    with anyio.fail_after(30):
        async with opened(entry(code)) as process:
            await process.wait_exited(0.3)  # it cannot finish: the pipe is full
            assert not process.exited.is_set()
            lines = [await process.receive_line() for _ in range(40)]
    assert lines == [str(number).encode() + b"x" * 1_000_000 for number in range(40)]


@pytest.mark.parametrize("busy_s", [0, HELD_OPEN_S], ids=["a free loop", "a loop that is busy meanwhile"])
async def test_lines_that_wait_in_the_pipe_outlive_the_server(busy_s: float) -> None:
    """More than is queued, then a little that stays in the pipe: the server is gone long before anybody reads."""
    go_on = anyio.Event()

    def wake() -> None:
        go_on.set()
        time.sleep(busy_s)  # the reader and whoever looks for the end come in the same turn

    code = (
        "import fcntl, struct, sys, termios, time\nout = sys.stdout.buffer\n"
        "def write(line, times=1):\n"
        "  for n in range(times): out.write(line + b'\\n')\n"
        "  out.flush()\n"
        "  while struct.unpack('i', fcntl.ioctl(1, termios.FIONREAD, bytes(4)))[0]: time.sleep(0.01)\n"
        "write(b'x' * ((1 << 20) - 100), 16)\nwrite(b'x' * 2000)\nout.write(b'the last\\n')"
    )
    with anyio.fail_after(60):
        async with opened(entry(code)) as process:
            await process.exited.wait()
            asyncio.get_running_loop().call_later(1.5 * HELD_OPEN_S, wake)
            await go_on.wait()
            lines = [await process.receive_line() for _ in range(18)]
            with pytest.raises(anyio.EndOfStream):
                await process.receive_line()
    assert lines[-1] == b"the last"


@pytest.mark.req("B-007")
async def test_stderr_keeps_its_last_lines_only() -> None:
    code = "import sys\nfor n in range(200000): sys.stderr.write(f'line {n}\\n')\nsys.stderr.write('the end')"
    with anyio.fail_after(30):
        async with opened(entry(code)) as process:
            await process.wait_exited(20)
            with pytest.raises(anyio.EndOfStream):
                await process.receive_line()
            words = process.last_words(frozenset({"the end"}))
    assert len(process._stderr) <= 2 * STDERR_BYTES_MAX
    assert words.endswith("line 199999 | [redacted]")
    assert "(exit status 0); it last wrote to stderr: line 199993 |" in words


def test_lines_are_joined_across_chunks_and_capped() -> None:
    arrived = ArrivedLines(line_bytes_max=10)
    for chunk in (b"ab", b"c\nd", b"\n\n", b"0123456789a", b"bcdefg", b"h}\nnext\n"):
        arrived.add(chunk)
    lines = [arrived.next() for _ in range(6)]
    assert lines[:3] == [b"abc", b"d", b""]
    assert lines[3] == OversizedLine(b"0123456789a", b"0123456789abcdefgh}")
    assert lines[4:] == [b"next", None]


async def test_a_plain_name_that_path_does_not_know_is_looked_for_beside_the_interpreter(tmp_path: Path) -> None:
    name = Path(sys.executable).name
    environ = {"PATH": str(tmp_path)}
    config = configure({"srv": {"command": name, "args": ["-c", "input()"]}}).servers[0]
    with anyio.fail_after(30):
        async with open_process(config, environ, times=QUICK) as process:
            assert alive(process.pid)


async def test_a_missing_command_is_called_missing_also_when_path_holds_a_closed_folder(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o000)
    config = configure({"srv": {"command": "no-such-command-here"}}).servers[0]
    with pytest.raises(UpstreamStartError, match="was not found; install it"):
        async with open_process(config, {"PATH": str(closed)}, times=QUICK):
            pass
