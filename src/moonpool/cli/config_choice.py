"""Finds a command's server configuration and data folder.

The configuration is `--config`, else `./moonpool.json`, else the file that `moonpool init` writes, else none.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.store.paths import data_dir

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.configuration.servers import McpConfig
    from moonpool.core.audit import JournalReader
    from moonpool.network.rules import NetworkRules
    from moonpool.settings import Settings

LOCAL_NAME: Final = "moonpool.json"
LAST: Final = "last"  # instead of a run id: the newest execution on record, replays excepted


def user_config_path(environ: Mapping[str, str]) -> Path:
    """`$XDG_CONFIG_HOME/moonpool/servers.json` or `~/.config/moonpool/servers.json`."""
    xdg = environ.get("XDG_CONFIG_HOME", "")
    base = Path(xdg) if xdg.startswith("/") else Path(environ.get("HOME") or "/") / ".config"
    return base / "moonpool" / "servers.json"


def chosen_path(given: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The configuration file in force, or None: no servers."""
    if given is not None:
        return given
    return next((path for path in (Path(LOCAL_NAME), user_config_path(environ)) if path.is_file()), None)


def read_config(given: Path | None) -> McpConfig | None:
    """Read the configuration in force. Raises ConfigError."""
    path = chosen_path(given, os.environ)
    if path is None:
        return None
    from moonpool.configuration.server_files import load_servers

    return load_servers(path, os.environ)


def allowed_network(domains: tuple[str, ...]) -> NetworkRules | None:
    """What `--allow-network` says; None: no network. Raises NetworkRuleError."""
    if not domains:
        return None
    from moonpool.network.rules import parse_domains

    return parse_domains(domains)


def data_folder(settings: Settings) -> Path:
    """The data folder in force, without importing the composition root."""
    return settings.data_dir or data_dir(os.geteuid(), os.environ)


def journal_of(settings: Settings, org: str | None = None) -> JournalReader:
    """The audit journal of an organisation, by default the command line's. Raises ConfigError, InputError."""
    from moonpool.store.journals import journal_reader

    data = data_folder(settings)
    if org is None:
        return journal_reader(settings, data)
    from moonpool.features.organisations.model import check_id
    from moonpool.store.paths import tenant_dir

    check_id(org)
    return journal_reader(settings, tenant_dir(data, org), org)


def run_named(name: str, journal: JournalReader) -> str:
    """The run id for `name`, which may be `last`. Raises InputError, JournalError."""
    from moonpool.core.errors import InputError

    if name != LAST:
        return name
    found = journal.newest_run()
    if found is None:
        raise InputError(f"no execution is on record in {journal.name}, so there is no last one; run code first")
    return found
