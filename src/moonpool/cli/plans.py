"""`moonpool plans list|show|approve|deny`: answer what dry runs found."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from moonpool.cli.command_group import command_group

_ID = typer.Argument(help="The plan; the first 8 characters after `plan_` are enough.", metavar="ID")
_JSON = typer.Option("--json", help="One JSON object per line.")
_FULL = typer.Option("--full", help="Also what is hidden because it looks like a secret.")

app = command_group("Plans of dry runs: the calls that code wants to make, approved once and as a whole.")


@app.command(name="list")
def list_(
    *,
    all_: Annotated[bool, typer.Option("--all", help="Also those of the last week that are over.")] = False,
    json: Annotated[bool, _JSON] = False,
) -> None:
    """List plans that wait or are approved, oldest first."""
    from moonpool.cli.plan_reports import print_plans

    print_plans(open_only=not all_, as_json=json)


@app.command()
def show(
    id_: Annotated[str, _ID], *, full: Annotated[bool, _FULL] = False, json: Annotated[bool, _JSON] = False
) -> None:
    """Show every call of a plan with its arguments."""
    from moonpool.cli.plan_reports import print_plan

    print_plan(id_, full=full, as_json=json)


@app.command()
def approve(
    id_: Annotated[str, _ID], *, full: Annotated[bool, _FULL] = False, json: Annotated[bool, _JSON] = False
) -> None:
    """Show a plan again and allow all of its calls, once: `moonpool run FILE --plan ID`.

    At a terminal it is asked once more whether you mean it.
    """
    from moonpool.cli.plan_reports import approve_plan

    sys.exit(approve_plan(id_, full=full, as_json=json))


@app.command()
def deny(id_: Annotated[str, _ID], *, json: Annotated[bool, _JSON] = False) -> None:
    """Refuse a plan, or take an approval back that was not used yet."""
    from moonpool.cli.plan_reports import deny_plan

    sys.exit(deny_plan(id_, as_json=json))
