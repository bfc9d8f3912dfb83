"""What a process is that a test has started: the same for one that was really started and for one that was forked."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import pytest

from commands import process
from commands.process import SCRIPT, Command, preload, run_command
from process_tree import children_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Start = Callable[..., subprocess.Popen[Any]]


FOR_EVER = "import time\nwhile True: time.sleep(0.01)"
"""Not one long wait: a signal that comes just before a wait is noticed after it only."""


def start_really(args: list[Any], *, controlling_terminal: bool = False, **options: Any) -> subprocess.Popen[Any]:
    """`Command` without a preloaded interpreter, nor what somebody tells the tests' own by its variables."""
    environ = options.get("env") or os.environ
    options["env"] = {name: value for name, value in environ.items() if not os.fsdecode(name).startswith("PYTHON")}
    if controlling_terminal:
        options["preexec_fn"] = lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    return subprocess.Popen([*([] if args[0] == SCRIPT else [sys.executable]), *args], **options)


@pytest.fixture(params=[start_really, Command], ids=["really started", "forked"])
def start(request: pytest.FixtureRequest) -> Start:
    return request.param


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a program and returns its path."""

    def write(text: str) -> Path:
        path = tmp_path / "program.py"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def shown(done: subprocess.CompletedProcess[bytes]) -> Any:
    """The JSON that a program has printed."""
    assert (done.returncode, done.stderr) == (0, b"")
    return json.loads(done.stdout)


# --- the end


@pytest.mark.parametrize(
    ("text", "code", "last_words"),
    [
        pytest.param("", 0, b"", id="the last line"),
        pytest.param("import sys; sys.exit(3)", 3, b"", id="a code"),
        pytest.param("import sys; sys.exit(None)", 0, b"", id="no code"),
        pytest.param("import sys; sys.exit(256 + 5)", 5, b"", id="a code that is too large"),
        pytest.param("import sys; sys.exit('because')", 1, b"because", id="a sentence"),
        pytest.param("1 / 0", 1, b"ZeroDivisionError: division by zero", id="an exception"),
        pytest.param("raise KeyboardInterrupt", -signal.SIGINT, b"KeyboardInterrupt", id="an interrupt"),
        pytest.param("import os; os._exit(7)", 7, b"", id="at once"),
        pytest.param("import os; os.abort()", -signal.SIGABRT, b"", id="a crash"),
    ],
)
def test_an_end_is_told_by_code_and_last_words(
    start: Start, program: Callable[[str], Path], text: str, code: int, last_words: bytes
) -> None:
    done = run_command([program(text)], start=start)
    assert (done.returncode, done.stdout) == (code, b"")
    assert (done.stderr.splitlines() or [b""])[-1] == last_words


def test_streams_are_those_given_and_all_is_written_at_the_end(start: Start, program: Callable[[str], Path]) -> None:
    path = program("""
import atexit, sys, threading
got = sys.stdin.read()  # until its end
threading.Timer(0, lambda: print("from a thread")).start()
atexit.register(print, "from an exit function")
sys.stdout.write(repr([got, *sys.argv[1:]]) + "\\n")
sys.stderr.write("no line's end")
""")
    done = run_command([path, "-x", "ä"], input="first\r\nsecond ä", start=start, encoding="utf-8")
    lines = done.stdout.splitlines()
    assert sorted(lines[:2]) == [repr(["first\r\nsecond ä", "-x", "ä"]), "from a thread"]
    assert (done.returncode, lines[2:], done.stderr) == (0, ["from an exit function"], "no line's end")


def test_stderr_may_go_where_stdout_goes(start: Start, program: Callable[[str], Path]) -> None:
    path = program("import sys; print('one', flush=True); print('two', file=sys.stderr, flush=True); print('three')")
    assert run_command([path], stderr=subprocess.STDOUT, start=start).stdout == b"one\ntwo\nthree\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_is_told(start: Start, program: Callable[[str], Path], number: signal.Signals) -> None:
    path = program(f"print('here', flush=True); {FOR_EVER}")
    with start([path], stdout=PIPE, stderr=PIPE) as running:
        assert running.stdout.readline() == b"here\n"
        assert running.poll() is None
        running.send_signal(number)
        assert running.wait() == -number


def test_ctrl_c_at_its_terminal_ends_it(start: Start, program: Callable[[str], Path]) -> None:
    side, other = pty.openpty()
    path = program(f"import os; os.write(os.open('/dev/tty', os.O_WRONLY), b'mine'); {FOR_EVER}")
    with start(
        [path], stdin=other, stdout=other, stderr=other, start_new_session=True, controlling_terminal=True
    ) as it:
        os.close(other)
        seen = b""
        while b"mine" not in seen:
            seen += os.read(side, 1000)
        os.write(side, b"\x03")
        with suppress(OSError):  # EIO: it has ended
            while piece := os.read(side, 1000):
                seen += piece
        assert it.wait() == -signal.SIGINT
    os.close(side)
    assert seen.endswith(b"KeyboardInterrupt\r\n")


def test_what_nobody_reads_any_more_is_an_error(start: Start, program: Callable[[str], Path]) -> None:
    with start([program("input(); print('lost')")], stdin=PIPE, stdout=PIPE, stderr=PIPE) as running:
        running.stdout.close()
        running.stdin.write(b"\n")
        running.stdin.close()
        assert running.wait() == 120


# --- what it is and has


def test_it_is_a_child_of_the_test_in_its_session(start: Start, program: Callable[[str], Path]) -> None:
    path = program("import os; print([os.getppid(), os.getsid(0), os.getpgrp(), os.getpid()])")
    with start([path], stdout=PIPE) as running:
        assert json.load(running.stdout) == [os.getpid(), os.getsid(0), os.getpgrp(), running.pid]
    with start([path], stdout=PIPE, start_new_session=True) as running:
        assert json.load(running.stdout) == [os.getpid(), *[running.pid] * 3]


PLACE = """
import json, os, subprocess
inherited = subprocess.run(["/usr/bin/env"], stdout=subprocess.PIPE, check=True).stdout.decode()
umask = os.umask(0)
print(json.dumps([dict(os.environ), dict(line.split("=", 1) for line in inherited.splitlines()), os.getcwd(), umask]))
"""


def test_variables_and_folder_are_those_given(
    start: Start, program: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_TEST", "1")
    environ, inherited, folder, _ = shown(
        run_command([program(PLACE)], start=start, cwd=tmp_path, env={"GIVEN": "a=b", "MORE": ""})
    )
    for variables in (environ, inherited):
        variables.pop("LC_CTYPE", None)  # Python sets it when it starts without a locale
    assert (environ, inherited, folder) == ({"GIVEN": "a=b", "MORE": ""}, environ, str(tmp_path))


def test_what_is_not_given_is_that_of_the_test_as_it_is_now(
    start: Start, program: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_TEST", "1")
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o27)
    try:
        environ, inherited, folder, umask = shown(run_command([program(PLACE)], start=start))
    finally:
        os.umask(before)
    assert (environ["OF_THE_TEST"], inherited["OF_THE_TEST"]) == ("1", "1")
    assert {name for name in os.environ if not name.startswith("PYTHON")} <= set(environ)
    assert (folder, umask) == (str(tmp_path), 0o27)


def test_a_folder_that_is_not_there_is_an_error_here(start: Start, program: Callable[[str], Path]) -> None:
    preload()
    before = children_of(os.getpid())
    with pytest.raises(FileNotFoundError, match="/no/such/folder"):
        start([program("")], cwd="/no/such/folder")
    assert children_of(os.getpid()) == before


def test_bytes_of_any_kind_and_number_arrive(start: Start, program: Callable[[str], Path]) -> None:
    path = program("""
import json, os, sys
print(json.dumps([os.fsencode(word).hex() for word in (*sys.argv[1:3], os.environ["NAME"])] + [len(sys.argv[3])]))
""")
    words = [b"\xff\xfe", "ä\udcff", "x" * 100_000]
    done = run_command([path, *words], start=start, env={b"NAME": b"\xfe"})
    assert shown(done) == ["fffe", "c3a4ff", "fe", 100_000]


def test_no_other_descriptor_is_open(start: Start, program: Callable[[str], Path]) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    path = program("""
import os
def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
print([fd for fd in range(4096) if is_open(fd)])
""")
    try:
        assert shown(run_command([path], start=start)) == [0, 1, 2]
    finally:
        os.close(reading)
        os.close(writing)


def test_no_two_draw_the_same_numbers(start: Start, program: Callable[[str], Path]) -> None:
    path = program("""
import json, random, tempfile, uuid
print(json.dumps([random.random(), uuid.uuid4().hex, next(tempfile._get_candidate_names())]))
""")
    one, other = (shown(run_command([path], start=start)) for _ in range(2))
    assert set(one).isdisjoint(other)


def test_code_may_be_given_instead_of_a_program(start: Start) -> None:
    code = "import sys, __main__; x = 1; print([sys.argv, sys.path[0], __name__, __main__.x])"
    assert run_command(["-c", code, "-c", "b"], start=start).stdout == b"[['-c', '-c', 'b'], '', '__main__', 1]\n"


def test_a_program_finds_its_neighbours(start: Start, program: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("value = 5", encoding="utf-8")
    path = program("import sys, neighbour; print([neighbour.value, __file__, *sys.argv])")
    assert run_command([path], start=start).stdout.decode() == f"[5, '{path}', '{path}']\n"


def test_the_script_is_the_command(start: Start) -> None:
    done = run_command([SCRIPT, "no-such-command"], start=start, env={"PATH": os.environ["PATH"]})
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"no-such-command" in done.stderr
    assert b"moonpool" in done.stderr


def test_many_at_once_are_kept_apart(start: Start) -> None:
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda n: run_command(["-c", f"print({n})"], start=start), range(8)))
    assert [int(one.stdout) for one in done] == list(range(8))


# --- what a fork cannot be, and where it comes from


@pytest.mark.parametrize(
    "option",
    [
        pytest.param({"env": {"PYTHONHASHSEED": "1"}}, id="a variable of Python"),
        pytest.param({"env": {"LC_ALL": "de_DE"}}, id="a locale"),
        pytest.param({"preexec_fn": print}, id="code before the start"),
        pytest.param({"pass_fds": [0]}, id="descriptors"),
        pytest.param({"shell": True}, id="a shell"),
        pytest.param({"user": 65534}, id="an account"),
        pytest.param({"umask": 0o22}, id="a umask"),
        pytest.param({"process_group": 0}, id="a group"),
    ],
)
def test_what_only_a_fresh_start_can_give_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="start it with subprocess instead"):
        Command(["-c", ""], **option)


LOADED_WITH_NOTHING = f"""
import socket, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from commands import preloaded
preloaded.run(preloaded.wait_for_requests(socket.socket(fileno=int(sys.argv[1]))))
"""


@pytest.fixture
def light(program: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A preloaded interpreter of the test's own, that has imported nothing."""
    monkeypatch.setattr(process, "_PRELOADED", program(LOADED_WITH_NOTHING))
    monkeypatch.setattr(process, "_current", None)
    yield
    if process._current is not None:
        process._current.close()


def test_an_interpreter_that_has_died_is_replaced(light: None) -> None:
    process.preload()
    dead = process._current
    assert dead is not None
    dead._process.kill()
    dead._process.wait()
    assert run_command(["-c", "print(1)"]).stdout == b"1\n"
    assert process._current is not dead


def test_an_interpreter_that_dies_meanwhile_is_an_error_and_replaced(light: None, tmp_path: Path) -> None:
    good = process._PRELOADED.read_text(encoding="utf-8")
    process._PRELOADED.write_text("import sys; sys.exit()", encoding="utf-8")
    with pytest.raises(RuntimeError, match="the preloaded interpreter has ended"):
        Command(["-c", "print(1)"], stdout=PIPE)
    process._PRELOADED.write_text(good, encoding="utf-8")
    assert run_command(["-c", "print(1)"]).stdout == b"1\n"


def test_it_ends_with_the_test_process_and_what_it_forked_lives_on(light: None) -> None:
    with Command(["-c", "print(input())"], stdin=PIPE, stdout=PIPE) as running:
        assert process._current is not None
        process._current.close()
        assert process._current._process.returncode == 0
        assert running.communicate(b"still here\n")[0] == b"still here\n"
