"""Folders that a server may be told about (the protocol's roots), as the configuration names them. Pure.

A root is a hint, not a wall: a local server can read whatever its user can. So nothing is exposed unless it is written
down for that very server, and never the whole file system.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from moonpool.core.errors import ConfigError


def root_path(text: str, where: str, key: str) -> str:
    """An absolute path from a path or a `file://` URI. Raises ConfigError."""
    path = text
    if "://" in text:
        parts = urlsplit(text)
        if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or parts.query or parts.fragment:
            raise ConfigError(f'{where}: "{key}" must be a folder or its file:// address, not another address')
        path = unquote(parts.path)
    folder = PurePosixPath(path)
    if not folder.is_absolute() or ".." in folder.parts or "\0" in path:
        raise ConfigError(f'{where}: "{key}" must be an absolute path without "..", got {text[:200]!r}')
    if len(folder.parts) == 1:
        raise ConfigError(f'{where}: "{key}" is the whole file system; name the folder the server works in')
    return str(folder)
