"""IPython's reading of Python code: magics, `!command`, `name?`, `_`, `In` and `Out`, rich displays.

IPython transforms the code and keeps its own names; compiling, running, interrupts, tracebacks and the value that is
handed over stay the kernel's (`execution`). Only in environments that have IPython; the zygote makes the shell, because
that takes 90 ms.

What IPython would do with a terminal, a server or threads is replaced: commands run as plain child processes whose
output is the code's, help is printed, and figures are shown as everywhere here.

SECURITY: all of this runs in hostile ground and protects nobody; the host bounds and checks what it is sent.
"""

import atexit
import builtins
import json
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

from moonpool_guest.channel import GuestChannel
from moonpool_guest.python import installed
from moonpool_wire.limits import BUNDLE_BYTES_MAX, BUNDLE_MIMES, BUNDLES_MAX

_CONDA = "there is no conda here; use %pip install"
_INSTALLS = re.compile(
    r"\s*(?:sudo\s+)?(?:(?:\S*/)?python[0-9.]*\s+-m\s+)?(?:\S*/)?"
    r"(?:(?:uv\s+)?pip[0-9.]*\s+\w|uv\s+add\b|(?:micro)?(?:conda|mamba)\s+\w)"
)
_shells: "list[Any]" = []  # at most one
_sent: "list[int]" = [0]  # bundles of this execution


def prepare() -> None:
    """Make the shell if IPython is imported, as in a zygote that preloads it."""
    if "IPython.core.interactiveshell" in sys.modules and not _shells:
        _make()


def is_available() -> bool:
    """Whether this environment has IPython. Makes the shell if no zygote has."""
    if not _shells and find_spec("IPython") is not None:
        _make()
    return bool(_shells)


def _make() -> None:
    shells, config = import_module("IPython.core.interactiveshell"), import_module("traitlets.config")
    options = config.Config()
    options.HistoryManager.enabled = False  # no database, and no thread that writes it
    options.InteractiveShell.colors = "nocolor"
    shell = shells.InteractiveShell(config=options, user_module=type(sys)("__main__"))
    atexit.unregister(shell.atexit_operations)  # 3 ms at each end, to empty a namespace that goes with the process
    shell.system = _System(shell)
    shell.set_hook("show_in_pager", _print_page, priority=0)
    for name in ("bash", "sh", "script"):
        shell.register_magic_function(_Script(name), "cell", name)
    for name in ("matplotlib", "pylab"):
        shell.register_magic_function(_nothing, "line", name)
    for name in ("pip", "uv"):
        shell.register_magic_function(installed.pip, "line", name)
    for name in ("conda", "mamba", "micromamba"):
        shell.register_magic_function(_no_conda, "line", name)
    _shells.append(shell)


def shell() -> Any:
    """The shell, None where this environment has no IPython."""
    return _shells[0] if is_available() else None


def is_bound() -> bool:
    """Whether code of this session is read by IPython."""
    return bool(_shells) and "get_ipython" in vars(builtins)


def bind(module: Any) -> None:
    """Let the shell work on this module's namespace: the kernel's, whose code it transforms from now on."""
    shell = _shells[0]
    if shell.user_module is not module:
        shell.user_module, shell.user_ns = module, module.__dict__
        shell.init_user_ns()
        builtins.get_ipython = shell.get_ipython  # pyright: ignore[reportAttributeAccessIssue]
    _sent[0] = 0


def transformed(text: str) -> str:
    """The code as Python, with its lines where they were. Raises SyntaxError."""
    shell = _shells[0]
    shell.history_manager.store_inputs(shell.execution_count, text, text)
    return str(shell.transform_cell(text))


def ended(channel: GuestChannel, value: object) -> None:
    """The code has ended with this value of its last expression: number it, keep it as `_`, show it."""
    shell = _shells[0]
    shell.execution_count += 1  # before: the display hook takes the one before it
    if value is not None:
        show(channel, value, result=True)
        shell.displayhook.update_user_ns(value)


def show(channel: GuestChannel, value: object, *, result: bool) -> bool:
    """Send what `value` looks like to a reader of text, HTML and so on; whether there was more than plain text."""
    shell = _shells[0]
    formatted = cast("dict[str, Any]", shell.display_formatter.format(value, exclude=("image/png", "image/jpeg"))[0])
    bundle = {mime: _text(formatted[mime]) for mime in BUNDLE_MIMES if mime in formatted}
    rich = len(bundle) > 1
    if not (result or rich) or _sent[0] >= BUNDLES_MAX:
        return rich
    body = json.dumps(bundle).encode("utf-8", "backslashreplace")
    while len(body) > BUNDLE_BYTES_MAX and bundle:
        bundle.pop(max(bundle, key=lambda mime: len(bundle[mime])))  # the others say the same
        body = json.dumps(bundle).encode("utf-8", "backslashreplace")
    if bundle:
        _sent[0] += 1
        channel.send({"t": "bundle", "result": result}, body)
    return rich


def _text(form: Any) -> str:
    return form if isinstance(form, str) else json.dumps(form, default=str)


class _System:
    """`!command`: its output is the code's, its end is `_exit_code`. One child, no terminal."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def __call__(self, command: str) -> None:
        self.run(self._shell.var_expand(command, depth=1))  # 1: where the command stands, whose variables count

    def run(self, text: str) -> None:
        """Run a command whose variables are filled in."""
        if _INSTALLS.match(text):
            raise RuntimeError("commands have no network here: use `%pip install` and `%pip list` instead of them")
        if text.rstrip().endswith("&"):
            raise OSError("background processes are not supported by `!`; use subprocess.Popen")
        sys.stdout.flush()
        self._shell.user_ns["_exit_code"] = subprocess.call(text, shell=True)  # noqa: S602  the code's own command


class _Script:
    """`%%bash`, `%%sh`, `%%script PROGRAM`: the cell is a script of that program."""

    def __init__(self, name: str) -> None:
        self._name, self.__name__, self.__doc__ = name, name, f"Run the cell as a script: %%{name}"

    def __call__(self, line: str, cell: str) -> None:
        arguments = line.split()
        program = [self._name, *arguments] if self._name != "script" else arguments
        if not program:
            raise ValueError("%%script needs a program: %%script awk -f -")
        sys.stdout.flush()
        done = subprocess.run(program, input=cell.encode(), check=False)
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, program)


def _print_page(_shell: Any, data: Any, *_: object, **__: object) -> None:
    shown = cast("dict[str, Any]", data).get("text/plain", "") if isinstance(data, dict) else data
    print(shown)  # noqa: T201  that is what it is for


def _nothing(_line: str) -> None:
    """Figures are shown at the end of an execution, and by `plt.show()`."""


def _no_conda(_line: str) -> None:
    """Say what installs packages."""
    raise RuntimeError(_CONDA)
