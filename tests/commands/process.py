"""Commands as processes: `Command` is `subprocess.Popen` for the console script, forked from a preloaded interpreter.

A test gets what it would get from the installed script, but for 0.4 s of processor time spent on imports. Where the
start itself matters (what is imported, closed streams, variables that Python reads), start `SCRIPT` with `subprocess`.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from commands.preloaded import ANSWER, HEAD

SCRIPT = Path(sys.executable).with_name("moonpool")
"""The installed console script."""

_PRELOADED = Path(__file__).with_name("preloaded.py")
_OWN = dict(os.environ)
_READ_AT_START = re.compile("PYTHON|LC_|LANG")


class _Preloaded:
    """The preloaded interpreter of this test process."""

    def __init__(self) -> None:
        self._connection, theirs = socket.socketpair()
        self._owner = os.getpid()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, _PRELOADED, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={name: value for name, value in _OWN.items() if not name.startswith("PYTHON")},
            )

    def fork(self, request: dict[str, Any], fds: list[int]) -> tuple[int, int]:
        """The new process and 0, or the `errno` of what kept it from becoming what was asked for."""
        body = json.dumps(request).encode()
        try:
            socket.send_fds(self._connection, [HEAD.pack(len(body))], fds)
            self._connection.sendall(body)
            pid, trouble = ANSWER.unpack(self._connection.recv(ANSWER.size, socket.MSG_WAITALL))
        except (OSError, struct.error) as error:
            self._connection.close()
            raise RuntimeError("the preloaded interpreter has ended; its last words are above") from error
        except BaseException:
            self._connection.close()  # what it says next would not be about the next request
            raise
        return pid, trouble

    def is_usable(self) -> bool:
        return self._owner == os.getpid() and self._connection.fileno() != -1 and self._process.poll() is None

    def close(self) -> None:
        self._connection.close()
        if self._owner == os.getpid():
            self._process.wait(10)


_lock = threading.Lock()
_current: _Preloaded | None = None


def preload() -> None:
    """Start the preloaded interpreter now, for a test that would take it for something left behind."""
    with _lock:
        _preloaded()


def _preloaded() -> _Preloaded:
    global _current
    if _current is None or not _current.is_usable():
        if _current is not None:
            _current.close()
        _current = _Preloaded()
    return _current


@atexit.register
def _close() -> None:
    if _current is not None:
        _current.close()


class Command(subprocess.Popen[Any]):
    """A running command. Arguments are those of `subprocess.Popen`, but for the first of `args`.

    That is `SCRIPT`, the path of a Python program that uses the host, or `-c`, with code behind it.
    `controlling_terminal`: standard input, a terminal, becomes that of the new session.
    """

    def __init__(self, args: list[Any], *, controlling_terminal: bool = False, **options: Any) -> None:
        self._controlling_terminal = controlling_terminal
        super().__init__(args, **options)

    def _execute_child(self, args: list[Any], *rest: Any) -> None:
        """See CPython's `subprocess`: what starts the process once its pipes are made (3.11 to 3.14)."""
        (executable, preexec_fn, _, pass_fds, cwd, env, _, _, shell, *after) = rest
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, _, gid, gids, uid, umask, new_session, group = after
        given = (executable, preexec_fn, pass_fds or None, shell or None, gid, gids, uid)
        assert (given, umask) == ((None,) * 7, -1), "start it with subprocess instead"
        assert group in {None, -1}, "start it with subprocess instead"
        argv, program = _program([os.fsdecode(one) for one in args])
        folder = str(Path.cwd()) if cwd is None else os.fsdecode(cwd)
        request = {
            "program": program,
            "argv": argv,
            "cwd": folder,
            "umask": _umask(),
            "env": _environment(env),
            "start_new_session": new_session,
            "controlling_terminal": self._controlling_terminal,
        }
        streams = [own if own != -1 else fd for fd, own in enumerate((p2cread, c2pwrite, errwrite))]
        with _lock:
            pid, trouble = _preloaded().fork(request, streams)
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]
        if trouble:
            os.waitpid(pid, 0)
            raise OSError(trouble, os.strerror(trouble), folder)
        self.pid = pid
        self._child_created = True


def run_command(
    args: list[Any],
    *,
    input: bytes | str | None = None,  # noqa: A002  as `subprocess.run` has it
    timeout: float = 60,
    start: Callable[..., subprocess.Popen[Any]] = Command,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run(args, capture_output=True)` of a `Command`; of a fresh one with `start=subprocess.Popen`."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with start(args, **{**streams, **options}) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(args, process.returncode, out, err)


def _program(args: list[str]) -> tuple[list[str], dict[str, str]]:
    """`sys.argv`, and what `preloaded.start` gets."""
    if any("\0" in one for one in args):
        raise ValueError("embedded null byte")
    if args[0] == "-c":
        return ["-c", *args[2:]], {"code": args[1]}
    return args, {} if args[0] == str(SCRIPT) else {"path": args[0]}


def _environment(given: Mapping[Any, Any] | None) -> dict[str, str]:
    """The variables as text. What Python reads when it starts must be what it has read here."""
    env = {os.fsdecode(name): os.fsdecode(value) for name, value in (os.environ if given is None else given).items()}
    own = [name for name, value in env.items() if _READ_AT_START.match(name) and _OWN.get(name) != value]
    assert not own, f"Python reads {own} when it starts: start it with subprocess instead"
    return env


def _umask() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(status.partition("\nUmask:")[2].split()[0], 8)
