"""Documents that say which servers the packages of a folder belong to, one for each folder (`ipybox`).

A server whose package was removed is forgotten, for good, before code may write where the package was: else code could
make a folder of its name, and the next executor would start its command.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from moonpool.core.errors import ConfigError
from moonpool.store.private_files import private_folder, replace_private_file

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from pathlib import Path


def registrations_folder(data: Path) -> Path:
    """Where they are, in the data folder."""
    return data / "private" / "ipybox"


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Nobody else changes a document in `folder` meanwhile. Raises StoreFolderError, OSError."""
    with private_folder(folder).joinpath(".lock").open("a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def read_registrations(path: Path, member: str = "servers") -> dict[str, Any]:
    """A member of a document; empty where there is none. Raises ConfigError."""
    return cast("dict[str, Any]", _document(path).get(member, {}))


def write_registrations(path: Path, root: Path, servers: dict[str, Any], awaited: dict[str, Any]) -> None:
    """Keep the servers of the packages in `root`. Raises OSError."""
    document = {"root": str(root), "servers": servers, "async_api": awaited}
    replace_private_file(path, json.dumps(document, indent=1).encode(), durable=True)


def forget_removed(data: Path, folders: Iterable[Path]) -> list[Path]:
    """Forget servers whose packages are gone from below these folders, and return the folders of packages there.

    Raises ConfigError, StoreFolderError, OSError.
    """
    below = tuple(folders)
    if not (paths := sorted(registrations_folder(data).glob("*.json"))):
        return []
    roots: list[Path] = []
    with locked(registrations_folder(data)):
        for path in paths:
            document = _document(path)
            root = type(path)(document.get("root", "/"))
            if not any(root.is_relative_to(folder) for folder in below):
                continue
            servers: dict[str, Any] = document.get("servers", {})
            left = {name: params for name, params in servers.items() if os.path.isdir(root / name)}  # noqa: PTH112
            if left != servers:
                awaited = {name: True for name in document.get("async_api", {}) if name in left}
                write_registrations(path, root, left, awaited)
            if left:
                roots.append(root)
    return roots


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
        document.get("servers")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); remove it and generate the packages again") from None
    return cast("dict[str, Any]", document)
