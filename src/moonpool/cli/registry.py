"""`moonpool registry add`: add a server from an MCP Registry to the configuration.

SECURITY: what the publisher wrote is shown completely, as escaped JSON; nothing in it is run, fetched or expanded here.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moonpool.cli.client_configs import FoundServer
from moonpool.cli.commands import command_group
from moonpool.cli.config_choice import user_config_path
from moonpool.cli.printer import print_json, remark
from moonpool.cli.server_import import existing_servers, write_servers
from moonpool.configuration.registry_entry import read_registry_server
from moonpool.configuration.registry_lookup import ask_registry, is_registry_name, read_entry_file
from moonpool.configuration.servers import parse_config
from moonpool.core.errors import ConfigError, InputError
from moonpool.settings import Settings

if TYPE_CHECKING:
    from moonpool.configuration.registry_entry import RegistryServer
    from moonpool.core.json import JsonValue


app = command_group("Servers of MCP Registries.")


@app.command("add")
@click.argument("source", help="A server.json, or a name where the setting `registry` names one.")
@click.option("--name", metavar="NAME", help="What to call the server here.")
@click.option("--use", type=click.Choice(["npm", "pypi", "oci", "remote"]), help="Which of the ways that it offers.")
@click.option("--to", type=Path, metavar="FILE", help="Write here. Default: what `moonpool init` writes.")
@click.option("--runtime-arguments", is_flag=True, help="Take over arguments to npx, uvx or docker themselves.")
@click.option("--yes", is_flag=True, help="Write without asking.")
def add(source: str, *, name: str | None, use: str | None, to: Path | None, runtime_arguments: bool, yes: bool) -> int:
    """Show a registry's server as configuration and, after confirmation, write it. Nothing is started or downloaded."""
    found = read_registry_server(_document(source), source=source, kind=use, runtime_arguments=runtime_arguments)
    server_id = name or found.server_id
    target = to or user_config_path(os.environ)
    existing = existing_servers(target)
    if existing is not None and server_id in existing[1]:
        raise InputError(f"{target} has a server {server_id!r} already; give another name with --name")
    _check(server_id, found)
    _show(server_id, found)
    if not yes and not (sys.stdin.isatty() and click.confirm(f"Write it to {target}?", err=True)):
        remark("nothing was written" + ("" if sys.stdin.isatty() else "; --yes writes it"))
        return 1
    write_servers(target, existing, [FoundServer(server_id=server_id, entry=found.entry, source=source)])
    where = f" --config {shlex.quote(str(to))}" if to else ""
    listed = f"moonpool tools list {shlex.quote(server_id)}{where}"
    click.echo(f"wrote {server_id} to {target}; its tools: {listed}", err=True)
    if missing := [one.name for one in found.needs if one.name not in os.environ]:
        remark(
            f"not set yet: {', '.join(missing)}; until then this server is left out. Set them in"
            " the environment, keep values with `moonpool secrets set NAME` and write ${secret:NAME} instead of"
            f' ${{NAME}}, or give {server_id} "disabled": true'
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
    """Check that our configuration reader accepts the entry with every variable set."""
    document = json.dumps({"mcpServers": {server_id: found.entry}}).encode()
    parse_config(document, source=found.name, environ={one.name: "set" for one in found.needs})


def _show(server_id: str, found: RegistryServer) -> None:
    click.echo(f"{found.name} {found.version}: its publisher says: {json.dumps(found.about)}", err=True)
    if len(found.kinds) > 1:
        click.echo(f"it offers {', '.join(found.kinds)}; this is {found.kind} (--use chooses)", err=True)
    print_json({"mcpServers": {server_id: found.entry}}, indent=2)
    for about in found.notes:
        click.echo(about, err=True)
    for one in found.needs:
        about = f": {json.dumps(one.about)}" if one.about else ""
        click.echo(f"needs {one.name}{' (a secret)' if one.secret else ''}{about}", err=True)
    if found.left_out:
        click.echo(f"optional, not passed: {', '.join(map(ascii, found.left_out))}", err=True)
