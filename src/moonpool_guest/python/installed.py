"""Packages that the session installed: where they are imported from, and `%pip`.

They come last on `sys.path`, so none takes the place of the standard library, the environment or wrappers.
"""

import importlib
import os
import shlex
import sys

from moonpool_guest import toolcalls

PLACE = "/wrappers/packages"
_IGNORED = {"-q", "--quiet", "-qq", "--no-input", "--disable-pip-version-check", "--no-warn-script-location"}
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
    """`%pip install numpy "pandas>=2"`: the host installs packages into this session."""
    words = shlex.split(line)
    if words[:1] == ["pip"]:  # %uv pip install
        words = words[1:]
    if words[:1] != ["install"]:
        raise ValueError("only `%pip install PACKAGE...` works here")
    text = "\n".join(word for word in words[1:] if word not in _IGNORED)
    reply = toolcalls.install_packages(text)
    if reply.get("ok") is not True:
        error = reply["error"]
        raise RuntimeError(f"{error['message']} [{error['type']}]")
    refresh()
    print(reply["text"])  # noqa: T201  what pip does
