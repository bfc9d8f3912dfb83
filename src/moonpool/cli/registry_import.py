"""Adding one server of a registry to the configuration, after the person has seen all of it.

SECURITY: what the publisher wrote is shown as escaped JSON, whole; nothing of it is run, fetched or expanded here.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from moonpool.broker.config import parse_config
from moonpool.broker.registry_entry import read_registry_server
from moonpool.broker.registry_lookup import ask_registry, is_registry_name, read_entry_file
from moonpool.cli.client_configs import FoundServer
from moonpool.cli.config_choice import user_config_path
from moonpool.cli.server_import import existing_servers, write_servers
from moonpool.core.errors import ConfigError, InputError
from moonpool.settings import Settings

if TYPE_CHECKING:
    from moonpool.broker.registry_entry import RegistryServer
    from moonpool.core.json import JsonValue


def add_server(
    source: str, *, name: str | None, use: str | None, to: Path | None, runtime_arguments: bool, yes: bool
) -> int:
    """Show the entry, ask, write; return the exit code: 1 when nothing was written."""
    found = read_registry_server(_document(source), source=source, kind=use, runtime_arguments=runtime_arguments)
    server_id = name or found.server_id
    target = to or user_config_path(os.environ)
    existing = existing_servers(target)
    if existing is not None and server_id in existing[1]:
        raise InputError(f"{target} has a server {server_id!r} already; give another name with --name")
    _check(server_id, found)
    _show(server_id, found)
    if not yes and not (sys.stdin.isatty() and typer.confirm(f"Write it to {target}?", err=True)):
        typer.echo("moonpool: nothing was written" + ("" if sys.stdin.isatty() else "; --yes writes it"), err=True)
        return 1
    write_servers(target, existing, [FoundServer(server_id=server_id, entry=found.entry, source=source)])
    where = f" --config {shlex.quote(str(to))}" if to else ""
    listed = f"moonpool tools list {shlex.quote(server_id)}{where}"
    typer.echo(f"wrote {server_id} to {target}; its tools: {listed}", err=True)
    if missing := [one.name for one in found.needs if one.name not in os.environ]:
        typer.echo(
            f"moonpool: not set yet: {', '.join(missing)}; until then this server is left out. Set them in"
            " the environment, keep values with `moonpool secrets set NAME` and write ${secret:NAME} instead of"
            f' ${{NAME}}, or give {server_id} "disabled": true',
            err=True,
        )
    return 0


def _document(source: str) -> JsonValue:
    path = Path(source)
    if path.is_file() or not is_registry_name(source):
        return read_entry_file(path)
    registry = Settings.load(os.environ).registry
    if not registry:
        raise ConfigError(
            f"{source}: there is no such file, and no registry is configured to look it up; set MOONPOOL_REGISTRY"
        )
    return ask_registry(registry, source)


def _check(server_id: str, found: RegistryServer) -> None:
    """The entry must be one that our own reader takes, with every variable set."""
    document = json.dumps({"mcpServers": {server_id: found.entry}}).encode()
    parse_config(document, source=found.name, environ={one.name: "set" for one in found.needs})


def _show(server_id: str, found: RegistryServer) -> None:
    typer.echo(f"{found.name} {found.version}: its publisher says: {json.dumps(found.about)}", err=True)
    if len(found.kinds) > 1:
        typer.echo(f"it offers {', '.join(found.kinds)}; this is {found.kind} (--use chooses)", err=True)
    typer.echo(json.dumps({"mcpServers": {server_id: found.entry}}, indent=2))
    for note in found.notes:
        typer.echo(note, err=True)
    for one in found.needs:
        about = f": {json.dumps(one.about)}" if one.about else ""
        typer.echo(f"needs {one.name}{' (a secret)' if one.secret else ''}{about}", err=True)
    if found.left_out:
        typer.echo(f"optional, not passed: {', '.join(map(ascii, found.left_out))}", err=True)
