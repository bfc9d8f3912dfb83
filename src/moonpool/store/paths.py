"""Paths of Moonpool's data. Pure: the caller passes uid and environment variables.

`private` holds the audit journal, recordings, the key for receipts, secrets and cached manifests and is closed to every
other user (0700). The data folder itself is not: environments are beside it and sandbox uids must read those.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_TENANT: Final = "default"
"""The tenant of the command line."""


def data_dir(uid: int, environ: Mapping[str, str]) -> Path:
    """`/var/lib/moonpool` for root, else `$XDG_DATA_HOME/moonpool` or `~/.local/share/moonpool`."""
    if uid == 0:
        return Path("/var/lib/moonpool")
    xdg = environ.get("XDG_DATA_HOME", "")
    if xdg.startswith("/"):  # the XDG specification says to ignore relative ones
        return Path(xdg) / "moonpool"
    return Path(environ.get("HOME") or f"/home/{uid}") / ".local/share/moonpool"


def tenant_dir(data: Path, tenant_id: str) -> Path:
    """The folder of a tenant's files: the data folder itself for the default tenant, else a folder below it."""
    return data if tenant_id == DEFAULT_TENANT else data / "tenants" / tenant_id


def tenant_dirs(data: Path) -> list[Path]:
    """Of every tenant that was ever opened here. Looks at the disk."""
    return [data, *(data / "tenants").glob("*")]


def artifacts_dir(data: Path) -> Path:
    return _private(data, "artifacts")


def journal_path(data: Path) -> Path:
    return _private(data, "audit.sqlite3")


def manifest_dir(data: Path) -> Path:
    return _private(data, "manifests")


def acceptance_dir(data: Path) -> Path:
    return _private(data, "accepted")


def kept_folders_dir(data: Path) -> Path:
    """Copies of attached folders, of sandboxes that have ended, that could not be carried to the folders."""
    return _private(data, "folders")


def keys_dir(data: Path) -> Path:
    return _private(data, "keys")


def learned_types_dir(data: Path) -> Path:
    return _private(data, "lessons")


def library_dir(data: Path) -> Path:
    return data / "private" / "library"


def approvals_path(data: Path) -> Path:
    return _private(data, "approvals.sqlite3")


def database_path(data: Path) -> Path:
    """Of the service: organisations and keys."""
    return _private(data, "service.sqlite3")


def files_dir(data: Path) -> Path:
    """Of threads and volumes; outside `private`, so that it can be a disk of its own. It is closed to others, too."""
    return data / "files"


def shown_volumes_dir(data: Path) -> Path:
    """Checkouts of volumes that sandboxes only read. A cache: what is there is made again."""
    return _private(data, "volumes")


def plans_path(data: Path) -> Path:
    return _private(data, "plans.sqlite3")


def models_dir(data: Path) -> Path:
    return _private(data, "models")


def secrets_dir(data: Path) -> Path:
    return _private(data, "secrets")


def outcomes_dir(data: Path) -> Path:
    return _private(data, "outcomes")


def execution_marks_dir(data: Path) -> Path:
    """Of executions that outlive the requests that started them."""
    return _private(data, "executions")


def recordings_path(data: Path) -> Path:
    return _private(data, "recordings.sqlite3")


def token_counts_dir(data: Path) -> Path:
    return _private(data, "tokens")


def packages_dir(data: Path) -> Path:
    return _private(data, "packages")


def package_resolutions_dir(data: Path) -> Path:
    return _private(data, "package_resolutions")


def _private(data: Path, name: str) -> Path:
    return data / "private" / name
