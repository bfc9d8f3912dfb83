"""Which servers the packages of a folder belong to: what `generate_mcp_sources` was given, for the executors that come.

SECURITY: kept in the data folder, private to its owner, by the folder of the packages: not beside them, where code in a
sandbox may write. So such code names a server and never describes one. Placeholders are kept, not their values. A link
in place of the folder is not followed: code could make one that leads to another project's packages, and its servers.
"""

from __future__ import annotations

import os
import threading
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar

from moonpool.core.errors import ConfigError
from moonpool.settings import Settings
from moonpool.store.paths import data_dir
from moonpool.store.server_registrations import (
    locked,
    read_registrations,
    registrations_folder,
    write_registrations,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


def register(
    root: Path,
    server_name: str,
    server_params: Mapping[str, Any],
    environ: Mapping[str, str],
    *,
    async_api: bool = False,
) -> None:
    """Keep what reaches a server whose package is in the folder `root`. Raises StoreFolderError, OSError."""
    path = _path(root, environ)
    with locked(path.parent):
        servers = {**read_registrations(path), server_name: dict(server_params)}
        awaited = read_registrations(path, "async_api") | ({server_name: True} if async_api else {})
        if not async_api:
            awaited.pop(server_name, None)
        write_registrations(path, _itself(root), servers, awaited)


def registered(roots: Iterable[Path], environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The servers of all packages in these folders, by name; an earlier folder wins. Raises ConfigError."""
    found: dict[str, dict[str, Any]] = {}
    for root in roots:
        for name, params in read_registrations(_path(root, environ)).items():
            if (root / name).is_dir():  # else its package was removed
                found.setdefault(name, params)
    return found


class NewServers:
    """Servers that are registered in some folders after a session has begun, also by another process."""

    def __init__(self, roots: Iterable[Path], environ: Mapping[str, str]) -> None:
        """What is registered now is known. Blocking. Raises ConfigError."""
        self._roots = tuple(roots)
        self._paths = [_path(root, environ) for root in self._roots]
        self._marks = self._marks_now()
        self._known = registered(self._roots, environ).keys()

    def take(self, environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
        """Those that came since the last call, by name. Blocking. Raises ConfigError."""
        marks = self._marks_now()
        if marks == self._marks:
            return {}
        self._marks = marks
        found = registered(self._roots, environ)
        new = {name: params for name, params in found.items() if name not in self._known}
        self._known |= found.keys()
        return new

    def _marks_now(self) -> list[tuple[int, int] | None]:
        return [_mark(path) for path in self._paths]


def _mark(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns  # each change is another file


class _Described:
    """Servers that programs of this process described to a `ToolRunner`. SECURITY: no code in a sandbox can."""

    lock: ClassVar[threading.Lock] = threading.Lock()
    servers: ClassVar[dict[str, dict[str, Any]]] = {}


def describe(server_name: str, server_params: Mapping[str, Any]) -> None:
    """Let tool servers of this process know what reaches a server; the last description counts."""
    with _Described.lock:
        _Described.servers[server_name] = dict(server_params)


def find_server(server_name: str, roots: Iterable[Path], environ: Mapping[str, str]) -> dict[str, Any]:
    """What reaches a server: as described in this process, else as registered in these folders, else in the only one.

    Raises ConfigError when it is unknown, or registered differently in several other folders.
    """
    with _Described.lock:
        described = _Described.servers.get(server_name)
    if described is not None:
        return described
    if (params := registered(roots, environ).get(server_name)) is not None:
        return params
    elsewhere = [
        read_registrations(path)[server_name]
        for path in sorted(_folder(environ).glob("*.json"))
        if server_name in read_registrations(path)
    ]
    if not elsewhere:
        raise ConfigError(f"no server {server_name!r} is known here; call generate_mcp_sources for it")
    if any(params != elsewhere[0] for params in elsewhere):
        raise ConfigError(f"several folders have packages of a server {server_name!r}; start in the one that is meant")
    return elsewhere[0]


def _folder(environ: Mapping[str, str]) -> Path:
    return registrations_folder(Settings.load(environ).data_dir or data_dir(os.geteuid(), environ))


def _path(root: Path, environ: Mapping[str, str]) -> Path:
    return _folder(environ) / f"{sha256(os.fsencode(_itself(root))).hexdigest()[:32]}.json"


def _itself(root: Path) -> Path:
    return root.parent.resolve() / root.name


def awaited(roots: Iterable[Path], environ: Mapping[str, str]) -> list[str]:
    """The servers whose `run` is awaited. Raises ConfigError."""
    return sorted({name for root in roots for name in read_registrations(_path(root, environ), "async_api")})
