"""`moonpool keys create|list|limit|revoke`: keys of programs that use the service.

SECURITY: a key's text is printed once, by `create`, to standard output only. It is stored nowhere and never logged.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

from moonpool.cli.approval_texts import shown_time
from moonpool.cli.commands import command_group, json_lines, json_object
from moonpool.cli.exit_codes import EXIT_FAILED, EXIT_OK
from moonpool.cli.limit_options import limit_options, limits_given, limits_told
from moonpool.cli.printer import print_json, print_table, remark
from moonpool.cli.service_data import administered, data_dir_option, database_url_option, with_service_data
from moonpool.cli.variable_options import variable_option, variables_given
from moonpool.core.scopes import DEFAULT_SCOPES, SCOPES
from moonpool.features.keys.model import KeySpec, scopes_of

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.features.keys.model import ApiKey

_COLUMNS: Final = ("id", "org", "key", "name", "scopes", "profile", "limits", "state", "last used")

app = command_group("Keys of programs that use the service, sent as a bearer token.")


@app.command("create")
@click.option("--org", required=True, metavar="ORG", help="The organisation's id; it is made if there is none.")
@click.option("--profile", metavar="NAME", help="The only profile that the key may use. Default: the path names it.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    default=DEFAULT_SCOPES,
    metavar="SCOPE",
    help=f"What the key may do: {', '.join(SCOPES)}; repeatable. Default: {', '.join(DEFAULT_SCOPES)}.",
)
@click.option("--expires", metavar="DURATION", help="How long it is valid: 12h, 90d. Default: until it is revoked.")
@click.option("--name", default="", metavar="TEXT", help="What it is for.")
@click.option("--sandbox", metavar="NAME", help="The sandbox configuration of its code. Default: the organisation's.")
@variable_option
@click.option("--thread", metavar="THREAD", help="The thread that tools of a workspace work on.")
@limit_options
@json_object
@data_dir_option
@database_url_option
def create(  # noqa: PLR0913  options of the command
    *,
    org: str,
    profile: str | None,
    scopes: tuple[str, ...],
    expires: str | None,
    name: str,
    sandbox: str | None,
    variables: tuple[str, ...],
    thread: str | None,
    rate_limit: str | None,
    concurrency: int | None,
    quota: str | None,
    as_json: bool,
    data_dir: Path | None,
    database_url: str | None,
) -> None:
    """Make a key and print it, this once; a service that runs accepts it at once."""
    from moonpool.core.durations import duration_s

    if profile is not None:
        from moonpool.ipybox.mcp_server.hosted import served_profiles

        served_profiles().find(profile)
    spec = KeySpec(
        organisation_id=org,
        scopes=scopes_of(scopes),
        profile=profile,
        name=name,
        lifetime_s=None if expires is None else duration_s(expires),
        limits=limits_given(rate_limit, concurrency, quota),
        workspace_thread=thread,
        variables=variables_given(variables),
    )
    new = administered(data_dir, database_url, lambda administration: administration.create_key(spec, sandbox=sandbox))
    if as_json:
        print_json({"id": new.stored.key_id, "key": new.text})
    else:
        click.echo(new.text)
        remark(f"key {new.stored.key_id} of {org}; this is the only time that it is shown")


@app.command("list")
@click.option("--org", metavar="ORG", help="Only keys of this organisation.")
@json_lines
@data_dir_option
@database_url_option
def list_(*, org: str | None, as_json: bool, data_dir: Path | None, database_url: str | None) -> None:
    """List keys by their first characters, never whole."""
    found = with_service_data(data_dir, database_url, lambda opened: opened.keys.all(org))
    now = time.time()
    if as_json:
        for one in found:
            print_json(_json(one, now))
    elif found:
        print_table(_COLUMNS, (_cells(one, now) for one in found))
    if not found:
        remark("there are no keys; `moonpool keys create --org ORG` makes one")


@app.command("limit")
@click.argument("key_id", metavar="ID", help="The key's id, as `moonpool keys list` shows it.")
@limit_options
@data_dir_option
@database_url_option
def limit(
    *,
    key_id: str,
    rate_limit: str | None,
    concurrency: int | None,
    quota: str | None,
    data_dir: Path | None,
    database_url: str | None,
) -> None:
    """Change what a key may use, within one second everywhere; what is left out is as the settings say."""
    limits = limits_given(rate_limit, concurrency, quota)
    administered(data_dir, database_url, lambda administration: administration.limit_key(key_id, limits))
    remark(f"limits of {key_id}: {limits_told(limits)}")


@app.command("revoke")
@click.argument("key_id", metavar="ID", help="The key's id, as `moonpool keys list` shows it.")
@data_dir_option
@database_url_option
def revoke(*, key_id: str, data_dir: Path | None, database_url: str | None) -> int:
    """Refuse a key from now on, within one second everywhere. Exit code 1 when it was revoked before."""
    if administered(data_dir, database_url, lambda administration: administration.revoke_key(key_id)):
        remark(f"revoked {key_id}")
        return EXIT_OK
    remark(f"{key_id} was revoked before")
    return EXIT_FAILED


def _cells(one: ApiKey, now: float) -> tuple[str, ...]:
    state: str = one.state(now)
    if state == "valid" and one.expires_at is not None:
        state = f"valid until {shown_time(one.expires_at)}"
    used = "never" if one.last_used_at is None else shown_time(one.last_used_at)
    return (
        one.key_id, one.organisation_id, f"{one.prefix}...", one.name, _scopes(one), one.profile or "any",
        limits_told(one.limits), state, used,
    )  # fmt: skip


def _json(one: ApiKey, now: float) -> dict[str, object]:
    times = {"created_at": one.created_at, "expires_at": one.expires_at, "revoked_at": one.revoked_at}
    return {
        "id": one.key_id,
        "org": one.organisation_id,
        "prefix": one.prefix,
        "name": one.name,
        "scopes": _scopes(one).split(" "),
        "profile": one.profile,
        "limits": one.limits.said(),
        "sandbox": one.configuration_id,
        "thread": one.workspace_thread,
        "variables": list(one.variable_names),
        "state": one.state(now),
        **{name: None if at is None else shown_time(at) for name, at in times.items()},
        "last_used_at": None if one.last_used_at is None else shown_time(one.last_used_at),
    }


def _scopes(one: ApiKey) -> str:
    return " ".join(scope for scope in SCOPES if scope in one.scopes)
