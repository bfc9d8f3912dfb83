"""Packages that the session installed: where they are imported from, and `%pip`.

They come last on `sys.path`, so none takes the place of the standard library, the environment or wrappers.
"""

import importlib
import os
import shlex
import sys
from importlib import metadata

from moonpool_guest import toolcalls
from moonpool_guest.path.client.pip_words import wanted

PLACE = "/wrappers/packages"
_seen = [""]  # where the link led when this was last looked at


def prepare() -> None:
    """Let packages be imported, once there are some."""
    sys.path.append(PLACE)


def refresh() -> None:
    """Import from what the host has published since: the import system remembers what was not there."""
    try:
        now = os.readlink(PLACE)
    except OSError:
        return
    if now != _seen[0]:
        _seen[0] = now
        for path in [p for p in sys.path_importer_cache if p.startswith(PLACE)]:
            del sys.path_importer_cache[path]
        importlib.invalidate_caches()


def pip(line: str) -> None:
    """`%pip install numpy "pandas>=2" -r requirements.txt`, `%pip list`, `%pip freeze`."""
    words = shlex.split(line)
    if words[:1] == ["pip"]:  # %uv pip install
        words = words[1:]
    if words[:1] == ["install"]:
        _install(words[1:])
    elif words in (["list"], ["freeze"]):
        _list("{}=={}" if words == ["freeze"] else "{:<24} {}")
    elif words[:1] == ["uninstall"]:
        raise ValueError("packages stay as long as their session; install another version, or begin another session")
    else:
        raise ValueError("`%pip install PACKAGE...`, `%pip list` and `%pip freeze` work here, and nothing else of pip")


def _list(form: str) -> None:
    """What code can import: of the environment, and installed."""
    found: dict[str, tuple[str, str]] = {}
    for one in metadata.distributions():  # the first of a name is the one that is imported
        found.setdefault(one.metadata["Name"].lower(), (one.metadata["Name"], one.version))
    for _, row in sorted(found.items()):
        print(form.format(*row))  # noqa: T201  what pip does


def _install(words: "list[str]") -> None:
    """The host installs packages into this session."""
    reply = toolcalls.install_packages(wanted(words))
    if reply.get("ok") is not True:
        error = reply["error"]
        raise RuntimeError(f"{error['message']} [{error['type']}]")
    refresh()
    print(reply["text"])  # noqa: T201  what pip does
