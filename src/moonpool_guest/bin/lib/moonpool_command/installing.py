"""`pip` of code that has a thread: the host installs (`docs/how-to/packages.md`), through PID 1's socket.

What the host does not do goes to the next pip on PATH, where there is one: other commands than `install`, files,
addresses; with a network also what nobody allowed, since that pip may reach an index itself.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from .calling import exchange
from .outcomes import ImpossibleError, InstallError

if TYPE_CHECKING:
    from moonpool_guest.path.client.pip_words import wanted
else:
    from client.pip_words import wanted

_OFF, _NO_NAME = "packages_off", "package_specifier_invalid"
_NOT_HERE = (
    "packages are installed while Bash or Node code runs, and none does; "
    "run `pip install` in a call of its own with language `bash` and the same thread"
)


def pip(program: str, words: list[str]) -> str:
    """Do what `pip` with these words says and return what to print; `program` is where that stands."""
    if words[:1] != ["install"]:
        return _another(program, words, "`pip install PACKAGE...` works here, and nothing else of pip")
    try:
        asked = wanted(words[1:])
        if any("/" in line or os.path.isfile(line) for line in asked.splitlines()):
            return _another(program, words, "files and addresses need a pip of this machine, and there is none")
        reply = exchange({"packages": True}, asked.encode("utf-8", "replace"), _NOT_HERE)
    except OSError as error:
        raise InstallError(f"{error.filename}: {error.strerror}") from None
    except ImpossibleError as error:
        reply = {"error": {"type": _OFF, "message": str(error)}}
    if reply.get("ok") is True:
        return f"{reply['text']}\n"
    error = reply["error"]
    if error["type"] == _NO_NAME or (error["type"] == _OFF and "PIP_NO_INDEX" not in os.environ):
        return _another(program, words, error["message"])
    raise InstallError(error["message"])


def _another(program: str, words: list[str], why_not: str) -> str:
    own = os.path.dirname(program)
    elsewhere = [folder for folder in os.environ.get("PATH", "").split(":") if folder != own]
    found = shutil.which("pip3", path=":".join(elsewhere))
    if found is None:
        raise InstallError(why_not)
    os.execv(found, ["pip", *words])  # noqa: S606  the code's own command
