"""Starts commands of Moonpool as processes of their own, without importing it anew for each.

`python preloaded.py FD` imports the whole host once, then reads requests from the Unix socket FD: what to run, its
environment and its three streams. For each it forks. The fork is a child of whoever started this program
(CLONE_PARENT), so that pids, signals, exit codes and `wait` are those of a command that was started directly.

What a fork shares with a fresh interpreter is everything but the start: the host's modules are there already. What
Python reads when it starts (PYTHON* variables, the locale) is this program's, and so is the seed of its hashes.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import struct
import sys
import termios
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, TextIO

HEAD = struct.Struct("=Q")
"""What a request begins with, and what its three descriptors come with: the bytes of JSON that follow."""

ANSWER = struct.Struct("=qi")
"""The process that was forked, and the `errno` for which it could not become the command; or 0."""

_SYS_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE_PARENT = 0x00008000
_FDS_MAX = 1 << 16
_LATE = ("moonpool.embeddings", "moonpool.sandboxes.reaper")  # an extra of its own; a program of its own


def import_host() -> None:
    """Import every module of the host and what it imports lazily."""
    import moonpool

    for module in pkgutil.walk_packages(moonpool.__path__, "moonpool."):
        if not module.name.startswith(_LATE) and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in ("mcp", "mcp.client.stdio", "mcp.client.streamable_http", "mcp.client.sse", "rich.console", "uvloop"):
        try:
            importlib.import_module(name)
        except ImportError:
            assert name == "uvloop", name


def fork_beside() -> int:
    """Fork; the child's parent is our own parent. Returns as `os.fork` does."""
    libc = ctypes.PyDLL(None, use_errno=True)  # it keeps the interpreter's lock, as `os.fork` does
    python = ctypes.pythonapi
    number = _SYS_CLONE[os.uname().machine]
    python.PyOS_BeforeFork()
    pid = libc.syscall(number, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        python.PyOS_AfterFork_Child()
        return 0
    python.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(ctypes.get_errno(), "clone")
    return pid


def read_request(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next request and its three descriptors; None at the end."""
    head, fds, _, _ = socket.recv_fds(connection, HEAD.size, 3)
    if not head:
        return None
    assert len(head) == HEAD.size
    assert len(fds) == 3
    (size,) = HEAD.unpack(head)
    body = bytearray()
    while len(body) < size:
        piece = connection.recv(min(size - len(body), 1 << 20))
        if not piece:
            return None
        body += piece
    return json.loads(body), fds


def become(request: dict[str, Any], fds: list[int]) -> None:
    """In the child: its session, streams, folder and variables. Leaves no other descriptor open. Raises OSError."""
    if request["start_new_session"]:
        os.setsid()
    for target, fd in enumerate(fds):
        os.dup2(fd, target, inheritable=True)
    if request["controlling_terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(os.fsencode(request["cwd"]))
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.argv[:] = request["argv"]
    sys.stdin = sys.__stdin__ = _stream(0, sys.stdin)
    sys.stdout = sys.__stdout__ = _stream(1, sys.stdout)
    sys.stderr = sys.__stderr__ = _stream(2, sys.stderr)
    os.closerange(3, _FDS_MAX)


def _stream(fd: int, of_start: TextIO) -> TextIO:
    """A standard stream as Python makes it when it starts."""
    by_line = fd == 2 or os.isatty(fd)
    stream = open(  # noqa: SIM115  it stays open
        fd,
        "w" if fd else "r",
        buffering=1 if by_line else -1,
        encoding=of_start.encoding,
        errors=of_start.errors,
        newline="\n",
        closefd=False,
    )
    stream.buffer.raw.name = of_start.name
    return stream


def wait_for_requests(connection: socket.socket) -> dict[str, Any]:
    """Fork for each request. Returns in the children only, when they are what was asked for."""
    of_start = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, and the end of them ours
    while (received := read_request(connection)) is not None:
        request, fds = received
        told, tells = os.pipe()
        pid = fork_beside()
        if pid == 0:
            signal.signal(signal.SIGINT, of_start)
            connection.detach()
            try:
                become(request, fds)
            except OSError as error:
                os.write(tells, str(error.errno).encode())
                os._exit(255)
            return request
        for fd in (*fds, tells):
            os.close(fd)
        with os.fdopen(told, "rb") as words:  # until the child has closed it
            trouble = words.read()
        with suppress(BrokenPipeError):  # nobody waits for it any more
            connection.sendall(ANSWER.pack(pid, int(trouble or b"0")))
    os._exit(0)


def run(request: dict[str, Any]) -> NoReturn:
    """Run what was asked for and end, as a fresh interpreter does."""
    try:
        start(**request["program"])
    except SystemExit as ended:
        end(ended.code)
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        end(0, by_signal=signal.SIGINT)
    except BaseException:  # noqa: BLE001  whatever it is, Python shows it and ends
        sys.excepthook(*sys.exc_info())
        end(1)
    end(0)


def start(*, path: str | None = None, code: str | None = None) -> None:
    """The program at this path, this code, or the console script."""
    sys.path.insert(0, str(Path(sys.argv[0]).parent) if code is None else "")
    if path is not None:
        runpy.run_path(path, run_name="__main__")
    elif code is not None:
        module = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(code, "<string>", "exec", dont_inherit=True), module.__dict__)  # noqa: S102  a test's own code
    else:
        from moonpool.cli.main import main

        sys.exit(main())


def end(code: object, by_signal: signal.Signals | None = None) -> NoReturn:
    """End as Python does, but for taking every module apart, which costs as much as many a command."""
    if code is not None and not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is None or stream.closed:
            continue
        try:
            stream.flush()
        except OSError:
            code = 120  # as Python says it
    if by_signal is not None:
        signal.signal(by_signal, signal.SIG_DFL)
        os.kill(os.getpid(), by_signal)
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    sys.path.pop(0)  # this folder
    import_host()
    assert threading.active_count() == len(list(Path("/proc/self/task").iterdir())) == 1, "forks would miss threads"
    requests = socket.socket(fileno=int(sys.argv[1]))
    requests.set_inheritable(False)
    sys.stdout.flush()
    gc.collect()
    gc.freeze()
    run(wait_for_requests(requests))
