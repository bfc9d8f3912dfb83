"""Starts commands of Moonpool as processes of their own, without importing it anew for each.

`python preloaded.py FD` imports the whole host once, then reads requests from the Unix socket FD: what to run, its
environment and its three streams. For each it forks. The fork is a child of whoever started this program
(CLONE_PARENT), so that pids, signals, exit codes and `wait` are those of a command that was started directly.

What a fork shares with a fresh interpreter is everything but the start: the host's modules are there already. What
Python reads when it starts (PYTHON* variables, the locale) is this program's; see `process.Command`.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import threading
from functools import partial
from typing import Any, NoReturn

_SYS_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE_PARENT = 0x00008000
_HEAD_BYTES = 8
_LATE = ("moonpool.embeddings", "moonpool.sandboxes.undertaker")  # an extra of its own; a program of its own


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


def build_command_tree() -> None:
    """Have typer read the commands' signatures once; every start of a command would spend 0.1 s on it."""
    import typer.main

    from moonpool.cli.main import app

    tree = typer.main.get_command(app)
    typer.main.get_command = lambda typer_instance: tree if typer_instance is app else None


def fork_beside() -> int:
    """Fork; the child's parent is our own parent. Returns as `os.fork` does."""
    libc = ctypes.CDLL(None, use_errno=True)
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
    head, fds, _, _ = socket.recv_fds(connection, _HEAD_BYTES, 3)
    if not head:
        return None
    assert len(head) == _HEAD_BYTES
    assert len(fds) == 3
    body = bytearray()
    while len(body) < int.from_bytes(head, "big"):
        body += connection.recv(1 << 20)
    return json.loads(body), fds


def become(request: dict[str, Any], fds: list[int]) -> None:
    """In the child: its session, streams, folder and variables."""
    if request["start_new_session"]:
        os.setsid()
    high = [os.dup(fd) if fd < 3 else fd for fd in fds]
    for target, fd in enumerate(high):
        os.dup2(fd, target, inheritable=True)
    os.closerange(3, max(high) + 1)
    if request["controlling_terminal"]:
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if request["cwd"] is not None:
        os.chdir(os.fsencode(request["cwd"]))
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[:] = request["argv"]
    sys.stdin = open(0, closefd=False)  # noqa: PLW1514, SIM115
    sys.stdout = open(1, "w", closefd=False, buffering=1 if os.isatty(1) else -1)  # noqa: PLW1514, SIM115
    sys.stderr = open(2, "w", closefd=False, buffering=1, errors="backslashreplace")  # noqa: PLW1514, SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr


def run(program: str) -> NoReturn:
    """Run the console script or, by its path, another program that uses the host."""
    if program == "moonpool":
        from moonpool.cli.main import main as start
    else:
        sys.path.insert(0, os.path.dirname(program))  # noqa: PTH120
        start = partial(runpy.run_path, program, run_name="__main__")
    try:
        start()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    else:
        code = 0
    end(code)


def end(code: object) -> NoReturn:
    """End as Python does, but for taking every module apart, which costs as much as many a command."""
    if code is not None and not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = 120  # as Python says it
    os._exit((code or 0) & 0xFF)


def wait_for_requests(connection: socket.socket) -> dict[str, Any]:
    """Fork for each request. Returns in the children only."""
    while (received := read_request(connection)) is not None:
        request, fds = received
        pid = fork_beside()
        if pid == 0:
            connection.close()
            become(request, fds)
            return request
        for fd in fds:
            os.close(fd)
        connection.sendall(pid.to_bytes(_HEAD_BYTES, "big"))
    sys.exit()


if __name__ == "__main__":
    sys.path.pop(0)  # this folder
    import_host()
    build_command_tree()
    assert threading.active_count() == len(os.listdir("/proc/self/task")) == 1, "forks would miss threads"
    gc.collect()
    gc.freeze()
    os.set_inheritable(int(sys.argv[1]), False)
    run(wait_for_requests(socket.socket(fileno=int(sys.argv[1])))["program"])
