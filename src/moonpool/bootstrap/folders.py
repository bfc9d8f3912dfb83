"""Paths of the installation, the uid that must be able to read them, and the folders that a session is given."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from moonpool.sandboxes.host_folders import FolderError, Surroundings, attached, own_code
from moonpool.sandboxes.identity import UID_FIRST
from moonpool.store.paths import data_dir
from moonpool.store.server_registrations import forget_removed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from moonpool.sandboxes.host_folders import HostFolders
    from moonpool.settings import Settings


def data_folder(settings: Settings, environ: Mapping[str, str]) -> Path:
    """The data folder in force."""
    return settings.data_dir or data_dir(os.geteuid(), environ)


def host_folders(
    settings: Settings,
    environ: Mapping[str, str],
    work: Sequence[str | os.PathLike[str]],
    imports: Sequence[str | os.PathLike[str]] = (),
    *,
    is_workspace: bool = True,
    fixed: Iterable[Path] = (),
) -> HostFolders:
    """Folders of this machine for one session (`sandboxes.host_folders.attached`). Raises FolderError, ConfigError.

    Code can read the files and folders `fixed`, and not change or replace them; the same holds of packages of servers.
    """
    data = data_folder(settings, environ)
    packages = _packages(data, work)
    kept = dict.fromkeys(path.resolve() for path in (*fixed, *packages) if path.exists())
    around = Surroundings(home=Path(environ.get("HOME") or "/root"), data=data, own_code=(*own_code(), *kept))
    return attached(work, imports=imports, around=around, is_workspace=is_workspace)


def _packages(data: Path, work: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """The folders of packages below `work`. SECURITY: code that could make one again would decide what is started."""
    folders = [_resolved(one) for one in work]
    try:
        return [root for root in forget_removed(data, folders) if root not in folders]
    except OSError as error:
        raise FolderError(f"no folder can be attached: the register of servers cannot be used ({error})") from None


def _resolved(given: str | os.PathLike[str]) -> Path:
    try:
        return Path(given).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise FolderError(f"{str(given)!r} cannot be attached: {getattr(error, 'strerror', None) or error}") from None


def sandbox_uid() -> int:
    """The uid that must be able to read environments: our own, or the first of the range when we are root."""
    return os.geteuid() or UID_FIRST
