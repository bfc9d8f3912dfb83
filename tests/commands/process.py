"""Commands as processes: `Command` is `subprocess.Popen` for the console script, forked from a preloaded interpreter.

A test gets what it would get from the installed script, but for 0.4 s of processor time spent on imports. Where the
start itself matters (what is imported, closed streams, variables that Python reads), start `SCRIPT` with `subprocess`.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

SCRIPT = Path(sys.executable).with_name("moonpool")
_PRELOADED = Path(__file__).with_name("preloaded.py")


class _Preloaded:
    """The preloaded interpreter of this test process."""

    def __init__(self) -> None:
        self._connection, theirs = socket.socketpair()
        self._owner = os.getpid()
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, _PRELOADED, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=_without_python_variables(os.environ),
                start_new_session=True,
            )
        atexit.register(self._close)

    def fork(self, request: dict[str, Any], fds: list[int]) -> int:
        body = json.dumps(request).encode()
        with self._lock:
            socket.send_fds(self._connection, [len(body).to_bytes(8, "big")], fds)
            self._connection.sendall(body)
            pid = self._connection.recv(8, socket.MSG_WAITALL)
        assert len(pid) == 8, "the preloaded interpreter has ended; its last words are above"
        return int.from_bytes(pid, "big")

    def _close(self) -> None:
        if os.getpid() == self._owner:
            self._connection.close()
            self._process.wait(10)


@cache
def _preloaded() -> _Preloaded:
    return _Preloaded()


class Command(subprocess.Popen[Any]):
    """A running command. Arguments as of `subprocess.Popen`; the first of `args` is `SCRIPT` or a Python program's path.

    `controlling_terminal`: standard input, a terminal, becomes that of the new session.
    """

    def __init__(self, args: list[Any], *, controlling_terminal: bool = False, **options: Any) -> None:
        self._controlling_terminal = controlling_terminal
        super().__init__(args, **options)

    def _execute_child(self, args: Any, *rest: Any) -> None:
        """See CPython's `subprocess`: what starts the process once its pipes are made (3.11 to 3.14)."""
        (_, preexec_fn, _, pass_fds, cwd, env, _, _, shell, *after) = rest
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, _, gid, gids, uid, umask, new_session, group = after
        assert not (preexec_fn or pass_fds or shell or gid or gids or uid), "start SCRIPT with subprocess instead"
        assert umask == -1
        assert group in {-1, None}
        argv = [os.fsdecode(one) for one in args]
        program = "moonpool" if argv[0] == str(SCRIPT) else argv[0]
        request = {
            "program": program,
            "argv": argv,
            "cwd": None if cwd is None else os.fsdecode(cwd),
            "env": _without_python_variables(os.environ if env is None else env),
            "start_new_session": new_session,
            "controlling_terminal": self._controlling_terminal,
        }
        streams = [own if own != -1 else fd for fd, own in enumerate((p2cread, c2pwrite, errwrite))]
        self.pid = _preloaded().fork(request, streams)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]


def run_command(args: list[Any], *, input: bytes = b"", timeout: float = 60, **options: Any) -> Any:  # noqa: A002
    """`subprocess.run(args, capture_output=True)` of a `Command`."""
    with Command(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(args, process.returncode, out, err)


def _without_python_variables(environ: Any) -> dict[str, str]:
    return {os.fsdecode(k): os.fsdecode(v) for k, v in environ.items() if not os.fsdecode(k).startswith("PYTHON")}
