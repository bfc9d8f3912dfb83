"""`moonpool orgs create|list|limit|disable|enable|servers|tools`: organisations that the service serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from moonpool.cli.approval_texts import shown_time
from moonpool.cli.commands import command_group, json_lines
from moonpool.cli.limit_options import limit_options, limits_given, limits_told
from moonpool.cli.orgs_servers import app as servers
from moonpool.cli.orgs_tools import app as tools
from moonpool.cli.printer import print_json, print_table, remark
from moonpool.cli.service_data import administered, data_dir_option, database_url_option, with_service_data

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.features.organisations.model import Organisation

_COLUMNS: Final = ("id", "name", "created", "limits", "state")

app = command_group("Organisations that the service serves: each has servers, rules, files and records of its own.")
app.add_command(servers, "servers")
app.add_command(tools, "tools")
_org_argument = click.argument("org", metavar="ORG", help="The organisation's id.")


@app.command("create")
@_org_argument
@click.option("--name", default="", metavar="TEXT", help="How people call it.")
@limit_options
@data_dir_option
@database_url_option
def create(
    *,
    org: str,
    name: str,
    rate_limit: str | None,
    concurrency: int | None,
    quota: str | None,
    data_dir: Path | None,
    database_url: str | None,
) -> None:
    """Make an organisation. Without root there can be one only. Its limits are of all its callers together."""
    limits = limits_given(rate_limit, concurrency, quota)
    administered(data_dir, database_url, lambda administration: administration.create_organisation(org, name, limits))
    remark(f"made organisation {org}; `moonpool keys create --org {org}` makes a key of it")


@app.command("list")
@json_lines
@data_dir_option
@database_url_option
def list_(*, as_json: bool, data_dir: Path | None, database_url: str | None) -> None:
    """List organisations."""
    found = with_service_data(data_dir, database_url, lambda opened: opened.organisations.all())
    if as_json:
        for one in found:
            print_json(_json(one))
    elif found:
        print_table(_COLUMNS, (_cells(one) for one in found))
    if not found:
        remark("there are no organisations; `moonpool orgs create ORG` makes one")


@app.command("limit")
@_org_argument
@limit_options
@data_dir_option
@database_url_option
def limit(
    *,
    org: str,
    rate_limit: str | None,
    concurrency: int | None,
    quota: str | None,
    data_dir: Path | None,
    database_url: str | None,
) -> None:
    """Change what all callers of an organisation together may use; what is left out is as the settings say."""
    limits = limits_given(rate_limit, concurrency, quota)
    administered(data_dir, database_url, lambda administration: administration.limit_organisation(org, limits))
    remark(f"limits of {org}: {limits_told(limits)}")


@app.command("disable")
@_org_argument
@data_dir_option
@database_url_option
def disable(*, org: str, data_dir: Path | None, database_url: str | None) -> None:
    """Refuse all credentials of an organisation, within one second everywhere. Nothing of it is removed."""
    administered(data_dir, database_url, lambda administration: administration.disable_organisation(org))
    remark(f"organisation {org} is disabled")


@app.command("enable")
@_org_argument
@data_dir_option
@database_url_option
def enable(*, org: str, data_dir: Path | None, database_url: str | None) -> None:
    """Accept an organisation's credentials again."""
    administered(data_dir, database_url, lambda administration: administration.enable_organisation(org))
    remark(f"organisation {org} is enabled")


def _cells(one: Organisation) -> tuple[str, ...]:
    state = "enabled" if one.disabled_at is None else f"disabled {shown_time(one.disabled_at)}"
    return one.organisation_id, one.name, shown_time(one.created_at), limits_told(one.limits), state


def _json(one: Organisation) -> dict[str, object]:
    return {
        "id": one.organisation_id,
        "name": one.name,
        "created_at": shown_time(one.created_at),
        "limits": one.limits.said(),
        "disabled_at": one.disabled_at and shown_time(one.disabled_at),
    }
