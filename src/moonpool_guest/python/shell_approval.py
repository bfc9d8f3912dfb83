"""ipybox's questions about shell commands: `!command`, `x = !command`, `%%bash` and the like ask the host first.

A question is a tool call of the server `ipybox`, so the host asks, records and bounds it as it does every call. What
runs is the text that was shown. With `require_escape` code starts no process in another way.

SECURITY: code can undo all of this, as in ipybox; what it starts is locked in like the code itself.
"""

import os
import pty
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from moonpool_guest import toolcalls
from moonpool_guest.python import ipython

_SERVER = "ipybox"
_STARTERS = (
    "execv", "execve", "execl", "execle", "execvp", "execvpe", "execlp", "execlpe", "spawnv", "spawnve", "spawnvp",
    "spawnvpe", "spawnl", "spawnle", "spawnlp", "spawnlpe", "posix_spawn", "posix_spawnp", "system",
)  # fmt: skip
_asked = threading.local()  # `.open` while a command runs that was asked about


def install(*, require_escape: bool) -> None:
    """Ask from now on, in this kernel."""
    shell = ipython.shell()
    if shell is not None:
        _ask_before_commands(shell)
    if require_escape:
        _close_other_ways()


def _ask_before_commands(shell: Any) -> None:
    process: Any = import_module("IPython.utils.process")
    texts: Any = import_module("IPython.utils.text")
    run = shell.system.run

    def system(command: str) -> None:
        shown = shell.var_expand(command, depth=1)  # 1: where the command stands
        with _allowed("shell", shown):
            run(shown)

    def getoutput(command: str, split: bool = True, depth: int = 0) -> Any:
        shown = shell.var_expand(command, depth=depth + 1)
        with _allowed("shell", shown):
            printed = process.getoutput(shown)
        return texts.SList(printed.splitlines()) if split else texts.LSString(printed)

    shell.system, shell.getoutput = system, getoutput
    manager = shell.magics_manager
    scripts = manager.registry["ScriptMagics"]  # loads it: that replaces its magics
    magics = manager.magics["cell"]
    for name in ("script", *scripts.script_magics):
        magics[name] = _asking_magic(magics[name])


def _asking_magic(magic: Callable[[str, str], None]) -> Callable[[str, str], None]:
    def asking(line: str, cell: str) -> None:
        with _allowed("shell_magic", f"{line}\n{cell}" if line else cell):  # arguments decide what runs, too
            magic(line, cell)

    return asking


@contextmanager
def _allowed(tool: str, command: str) -> Generator[None]:
    """Raises ApprovalRejectedError, ApprovalTimeoutError."""
    _ask(tool, command)
    _asked.open = True
    try:
        yield
    finally:
        _asked.open = False


def _ask(tool: str, command: str) -> None:
    reply = toolcalls.invoke_sync(_SERVER, tool, {"cmd": command})
    if not reply["ok"]:
        errors: Any = import_module("client.errors")
        error = errors.runner_error_from(errors.error_from(reply["error"]))
        error.type = type(error).__name__
        raise error


def _close_other_ways() -> None:
    original = subprocess.Popen

    class Popen(original):  # pyright: ignore[reportMissingTypeArgument, reportUntypedBaseClass]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            _check("subprocess")
            super().__init__(*args, **kwargs)  # pyright: ignore[reportUnknownMemberType]

    subprocess.Popen = Popen
    for name in _STARTERS:
        setattr(os, name, _guarded(f"os.{name}()", getattr(os, name)))
    pty.spawn = _guarded("pty.spawn()", pty.spawn)


def _guarded(name: str, start: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(*args: Any, **kwargs: Any) -> Any:
        _check(name)
        return start(*args, **kwargs)

    return guarded


def _check(what: str) -> None:
    if not getattr(_asked, "open", False):
        raise RuntimeError(f"Direct {what} calls are not allowed. Use ! syntax.")
