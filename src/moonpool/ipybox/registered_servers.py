"""Which servers the packages of a folder belong to: what `generate_mcp_sources` was given, for the executors that come.

SECURITY: kept in the data folder, private to its owner, by the folder of the packages: not beside them, where code in a
sandbox may write. So such code names a server and never describes one. Placeholders are kept, not their values. A link
in place of the folder is not followed: code could make one that leads to another project's packages, and its servers.
"""

from __future__ import annotations

import fcntl
import json
import os
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from moonpool.core.errors import ConfigError
from moonpool.settings import Settings
from moonpool.store.paths import data_dir
from moonpool.store.private_files import private_folder, replace_private_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


def register(root: Path, server_name: str, server_params: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Keep what reaches a server whose package is in the folder `root`. Raises StoreFolderError, OSError."""
    path = _path(root, environ)
    with private_folder(path.parent).joinpath(".lock").open("a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        servers = {**_read(path), server_name: dict(server_params)}
        content = json.dumps({"root": str(root.resolve()), "servers": servers}, indent=1).encode()
        replace_private_file(path, content, durable=True)


def registered(roots: Iterable[Path], environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The servers of all packages in these folders, by name; an earlier folder wins. Raises ConfigError."""
    found: dict[str, dict[str, Any]] = {}
    for root in roots:
        for name, params in _read(_path(root, environ)).items():
            if (root / name).is_dir():  # else its package was removed
                found.setdefault(name, params)
    return found


def _path(root: Path, environ: Mapping[str, str]) -> Path:
    data = Settings.load(environ).data_dir or data_dir(os.geteuid(), environ)
    own = root.parent.resolve() / root.name
    return data / "private" / "ipybox" / f"{sha256(os.fsencode(own)).hexdigest()[:32]}.json"


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        document = json.loads(path.read_bytes())
        return cast("dict[str, dict[str, Any]]", document["servers"])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); remove it and generate the packages again") from None
