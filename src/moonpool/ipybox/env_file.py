"""The file `.env` of the current directory: variables that `${VAR}` of servers may stand for.

SECURITY: what it says decides how servers are started, with the operator's credentials. So no code may have written it:
a sandbox hides it where its folder is attached, also when it is not there yet (`sandboxes.folder_binding`); and from
the moment that this process attaches the folder, what was read before counts.
"""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from moonpool.core.errors import ConfigError
from moonpool.sandboxes.code_writable import code_may_write
from moonpool.sandboxes.folder_trees import opened, read_fully

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME: Final = ".env"
_BYTES_MAX: Final = 256 * 1024


class _Read:
    """What this process has read, by directory."""

    lock: ClassVar[threading.Lock] = threading.Lock()
    found: ClassVar[dict[Path, dict[str, str]]] = {}


def with_env_file(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment, and what the file adds to it. Blocking. Raises ConfigError for one that cannot be used."""
    here = Path.cwd()
    with _Read.lock:
        if here not in _Read.found or not code_may_write(here):
            _Read.found[here] = _variables(here)
        return {**_Read.found[here], **environ}


def _variables(here: Path) -> dict[str, str]:
    try:
        text = _text(here / NAME)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        why = error.strerror or error if isinstance(error, OSError) else error
        raise ConfigError(f"the file .env of {here} cannot be used: {why}") from None
    found = {name: value for name, value in map(_assignment, text.splitlines()) if name}
    if found and code_may_write(here.parent):  # SECURITY: guarded in the folder itself, not in one below it
        raise ConfigError(
            f"the file .env of {here} is not used: code of this process could write it; start the executor before "
            "other sessions, or set the variables in the environment"
        )
    return found


def _text(path: Path) -> str:
    """SECURITY: one from before it was guarded may be a link, a device, or 256 MiB. Raises OSError, ValueError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise ValueError("it is a link; put the file itself there") from None
        raise error from None
    with opened(fd):
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError("it is no file")
        content = read_fully(fd, _BYTES_MAX + 1)
    if len(content) > _BYTES_MAX:
        raise ValueError(f"it is larger than {_BYTES_MAX:,} bytes")
    return content.decode("utf-8")


def _assignment(line: str) -> tuple[str, str]:
    name, equals, value = line.strip().removeprefix("export ").partition("=")
    name, value = name.strip(), value.strip()
    if not equals or name.startswith("#"):
        return "", ""
    if value[:1] in {'"', "'"} and value.find(value[0], 1) > 0:
        return name, value[1 : value.index(value[0], 1)]
    return name, value.partition(" #")[0].rstrip()
