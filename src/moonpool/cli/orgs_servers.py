"""`moonpool orgs servers add|list|remove`: servers of the public internet that one organisation has for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import click

from moonpool.cli.approval_texts import answerer, shown_time
from moonpool.cli.commands import command_group, config_option, json_lines
from moonpool.cli.config_choice import read_config
from moonpool.cli.printer import print_json, print_table, remark
from moonpool.cli.secrets import values_of
from moonpool.cli.service_data import data_dir_option, database_url_option, with_service_data
from moonpool.core.errors import InputError
from moonpool.features.servers.model import EXPOSES, OwnServer, ServerSpec

if TYPE_CHECKING:
    from pathlib import Path

_COLUMNS: Final = ("org", "server", "url", "headers", "used by", "added by", "added")

app = command_group("Servers of the public internet that an organisation has for itself.")
_org_argument = click.argument("org", metavar="ORG", help="The organisation's id.")


@app.command("add")
@_org_argument
@click.argument("name", metavar="NAME", help="How code and people call the server.")
@click.argument("url", metavar="URL", help="Its address: https, on the public internet.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME",
    help="A header that it is sent; repeatable. Values are asked for, or read from standard input, one on a line.",
)
@click.option("--expose", type=click.Choice(EXPOSES), default="code", show_default=True, help="Who may use it.")
@config_option
@data_dir_option
@database_url_option
def add(  # noqa: PLR0913  options of the command
    *,
    org: str,
    name: str,
    url: str,
    headers: tuple[str, ...],
    expose: str,
    config: Path | None,
    data_dir: Path | None,
    database_url: str | None,
) -> None:
    """Add a server; a service that runs takes it in within a second. Names in the operator's file are taken."""
    operators = read_config(config)
    spec = ServerSpec(server_id=name, url=url, headers=_values(headers), expose=cast("Any", expose))
    taken, by = () if operators is None else operators.taken_ids, answerer().name
    with_service_data(data_dir, database_url, lambda opened: opened.servers.add(org, spec, taken=taken, by=by))
    remark(f"added {name} for {org}")


@app.command("list")
@click.option("--org", metavar="ORG", help="Only servers of this organisation.")
@json_lines
@data_dir_option
@database_url_option
def list_(*, org: str | None, as_json: bool, data_dir: Path | None, database_url: str | None) -> None:
    """List the servers of organisations. Values of headers are never shown."""
    wanted = None if org is None else [org]
    rows = with_service_data(data_dir, database_url, lambda opened: opened.servers.all(wanted))
    found = [one for one in rows if one.removed_at is None]
    if as_json:
        for one in found:
            print_json(_json(one))
    elif found:
        print_table(_COLUMNS, map(_cells, found))
    if not found:
        remark("there are no servers of organisations; all use the operator's")


@app.command("remove")
@_org_argument
@click.argument("name", metavar="NAME", help="The server's name.")
@data_dir_option
@database_url_option
def remove(*, org: str, name: str, data_dir: Path | None, database_url: str | None) -> None:
    """End the use of a server, within one second everywhere."""
    by = answerer().name
    with_service_data(data_dir, database_url, lambda opened: opened.servers.remove(org, name, by=by))
    remark(f"removed {name} of {org}")


def _values(headers: tuple[str, ...]) -> dict[str, str]:
    """The headers with their values, which are never arguments: others could read those. Raises InputError."""
    if len({name.lower() for name in headers}) != len(headers):
        raise InputError("a header is named twice; name each once")
    return values_of(headers)


def _cells(one: OwnServer) -> tuple[str, ...]:
    names = ", ".join(one.header_names)
    return one.organisation_id, one.server_id, one.url, names, one.expose, one.added_by, shown_time(one.added_at)


def _json(one: OwnServer) -> dict[str, object]:
    return {
        "org": one.organisation_id,
        "name": one.server_id,
        "url": one.url,
        "headers": [*one.header_names],
        "expose": one.expose,
        "added_by": one.added_by,
        "added_at": shown_time(one.added_at),
    }
