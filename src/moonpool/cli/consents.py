"""`moonpool consents give|list|withdraw`: which OAuth clients may use Moonpool's logins to servers, for which user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from moonpool.cli.approval_texts import shown_time
from moonpool.cli.commands import command_group, config_option, json_lines
from moonpool.cli.config_choice import read_config
from moonpool.cli.exit_codes import EXIT_FAILED, EXIT_OK
from moonpool.cli.printer import print_json, print_table, remark
from moonpool.cli.service_data import administered, data_dir_option, database_url_option, with_service_data
from moonpool.core.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.bootstrap.administration import Administration
    from moonpool.configuration.server_config import McpConfig
    from moonpool.features.consents.model import Consent

_COLUMNS: Final = ("org", "user", "client", "server", "given by", "given", "state")

app = command_group("Consents of users to OAuth clients that use Moonpool's logins to servers.")
_server_argument = click.argument("server", metavar="SERVER", help="Its name.")
_org_option = click.option("--org", required=True, metavar="ORG", help="The organisation's id.")
_user_option = click.option("--user", required=True, metavar="NAME", help="The principal: user:ISSUER#SUBJECT.")
_client_option = click.option("--client", required=True, metavar="ID", help="The id of the OAuth client.")


@app.command("give")
@_server_argument
@_org_option
@_user_option
@_client_option
@config_option
@data_dir_option
@database_url_option
def give(
    *,
    server: str,
    org: str,
    user: str,
    client: str,
    config: Path | None,
    data_dir: Path | None,
    database_url: str | None,
) -> None:
    """Let a client use a server's login for a user, until the server is configured otherwise."""
    from moonpool.bootstrap.organisation_servers import servers_for

    operators = read_config(config)

    async def given(administration: Administration) -> None:
        digest = _digest(server, await servers_for(administration.opened, org, operators))
        await administration.give_consent(org, user, client, server, digest)

    administered(data_dir, database_url, given)
    remark(f"{client} may use the login to {server} for {user}")


@app.command("list")
@click.option("--org", metavar="ORG", help="Only consents in this organisation.")
@json_lines
@data_dir_option
@database_url_option
def list_(*, org: str | None, as_json: bool, data_dir: Path | None, database_url: str | None) -> None:
    """List consents, also those that were withdrawn."""
    found = with_service_data(data_dir, database_url, lambda opened: opened.consents.all(org))
    if as_json:
        for one in found:
            print_json(_json(one))
    elif found:
        print_table(_COLUMNS, (_cells(one) for one in found))
    if not found:
        remark("there are no consents; the service's log says which command gives one that is missing")


@app.command("withdraw")
@_server_argument
@_org_option
@_user_option
@_client_option
@data_dir_option
@database_url_option
def withdraw(*, server: str, org: str, user: str, client: str, data_dir: Path | None, database_url: str | None) -> int:
    """Let a client no longer use a server's login for a user. Exit code 1 when there was no consent."""
    withdrawn = administered(
        data_dir, database_url, lambda administration: administration.withdraw_consent(org, user, client, server)
    )
    if withdrawn:
        remark(f"{client} may no longer use the login to {server} for {user}")
        return EXIT_OK
    remark("there was no such consent")
    return EXIT_FAILED


def _digest(server_id: str, config: McpConfig) -> str:
    """Of the server's configuration. Raises InputError."""
    from moonpool.configuration.servers import resolved_key

    found = config.find(server_id)
    if found is None:
        known = ", ".join(config.ids) or "none"
        raise InputError(
            f"there is no server {server_id[:80]!r} of this organisation; there are: {known}; "
            "--config names the file with the operator's"
        )
    if not found.may_log_in:
        raise InputError(f"server {server_id!r} is never sent a login of Moonpool's, so it needs no consent")
    return resolved_key(found)


def _cells(one: Consent) -> tuple[str, ...]:
    state = "holds" if one.withdrawn_at is None else f"withdrawn {shown_time(one.withdrawn_at)}"
    given = shown_time(one.given_at)
    return one.organisation_id, one.principal, one.client_id, one.server_id, one.given_by, given, state


def _json(one: Consent) -> dict[str, object]:
    return {
        "org": one.organisation_id,
        "user": one.principal,
        "client": one.client_id,
        "server": one.server_id,
        "server_digest": one.server_digest,
        "given_by": one.given_by,
        "given_at": shown_time(one.given_at),
        "withdrawn_at": one.withdrawn_at and shown_time(one.withdrawn_at),
    }
