"""`moonpool approvals list|show|approve|deny|outcome|rules`: answer what runs with `--approve queue` ask."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from moonpool.cli.command_group import command_group

_ID = typer.Argument(help="The request; the first 8 characters of its id are enough.", metavar="ID")
_NOTE = typer.Option(help="What the code that asked is told.", metavar="TEXT")
_JSON = typer.Option("--json", help="One JSON object per line.")
_FULL = typer.Option("--full", help="Show all of the arguments, however long.")

app = command_group("The queue of approvals: what runs with `--approve queue` ask, and answers that stand for a while.")


@app.command(name="list")
def list_(
    *,
    all_: Annotated[bool, typer.Option("--all", help="Also those of the last week that are over.")] = False,
    json: Annotated[bool, _JSON] = False,
) -> None:
    """List requests that wait for an answer, oldest first."""
    from moonpool.cli.approval_reports import print_requests

    print_requests(waiting_only=not all_, as_json=json)


@app.command()
def show(
    id_: Annotated[str, _ID], *, full: Annotated[bool, _FULL] = False, json: Annotated[bool, _JSON] = False
) -> None:
    """Show one request with its arguments."""
    from moonpool.cli.approval_reports import print_request

    print_request(id_, full=full, as_json=json)


@app.command()
def approve(
    id_: Annotated[str, _ID],
    *,
    note: Annotated[str, _NOTE] = "",
    for_: Annotated[
        str | None,
        typer.Option(
            "--for",
            help="Also allow further calls with the same arguments: for 30m, 12h, 7d.",
            metavar="DURATION",
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="With --for: whatever the others are, where this argument matches, e.g. /repo=acme/*; repeatable.",
            metavar="POINTER=GLOB",
        ),
    ] = None,
    any_arguments: Annotated[
        bool, typer.Option("--any-arguments", help="With --for: further calls with any arguments.")
    ] = False,
    full: Annotated[bool, _FULL] = False,
    json: Annotated[bool, _JSON] = False,
) -> None:
    """Show a request again and allow the one call that it asks about; with --for also further ones like it.

    At a terminal it is asked once more whether you mean it.
    """
    from moonpool.cli.approval_reports import answer_yes, terms_of

    terms = terms_of(for_, where or [], any_arguments=any_arguments)
    sys.exit(answer_yes(id_, note, terms, full=full, as_json=json))


@app.command()
def deny(id_: Annotated[str, _ID], *, note: Annotated[str, _NOTE] = "", json: Annotated[bool, _JSON] = False) -> None:
    """Refuse the call that a request asks about."""
    from moonpool.cli.approval_reports import answer_no

    sys.exit(answer_no(id_, note, as_json=json))


@app.command()
def outcome(
    id_: Annotated[str, typer.Argument(help="The request, or the run (run_..., or last).", metavar="ID")],
) -> None:
    """Print what came of a run whose caller had left when it ended."""
    from moonpool.cli.approval_reports import print_outcome

    print_outcome(id_)


@app.command()
def rules(
    *,
    remove: Annotated[str | None, typer.Option(help="End this one: somebody is asked again.", metavar="ID")] = None,
    json: Annotated[bool, _JSON] = False,
) -> None:
    """List answers that stand for a while, or end one."""
    from moonpool.cli.approval_reports import print_standing

    print_standing(remove, as_json=json)
