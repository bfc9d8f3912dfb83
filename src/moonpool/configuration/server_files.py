"""Server configurations with the secrets that the secret store holds for them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from moonpool.configuration.servers import NO_FILE_REMEDY, load_config
from moonpool.settings import Settings
from moonpool.store.paths import data_dir, secrets_dir

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from moonpool.configuration.expansion import SecretSource
    from moonpool.configuration.servers import McpConfig
    from moonpool.store.secrets import SecretStore


def load_servers(path: Path, environ: Mapping[str, str], *, remedy: str = NO_FILE_REMEDY, here: str = ".") -> McpConfig:
    """`load_config` with stored secrets. Raises ConfigError, SecretStoreError."""
    return load_config(path, environ, stored=secret_source(environ), remedy=remedy, here=here)


def secret_source(environ: Mapping[str, str]) -> SecretSource:
    """Gives the values of `${secret:NAME}`; raises what the secret store raises."""
    return lambda name: secret_store(environ).get("secret", name)


def secret_store(environ: Mapping[str, str]) -> SecretStore:
    """The secret store in force; nothing is touched before it is used."""
    from moonpool.store.secrets import SecretStore  # noqa: PLC0415  with cryptography; most configurations name no secret

    folder = Settings.load(environ).data_dir or data_dir(os.geteuid(), environ)
    return SecretStore(secrets_dir(folder), environ)
