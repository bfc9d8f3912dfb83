"""`moonpool audit show|verify`: who ran what, which tools were called, and whether the record is whole."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from moonpool.cli.command_group import command_group

app = command_group("The audit journal: every execution and tool call, hash-chained.")


@app.command()
def show(
    *,
    run: Annotated[str | None, typer.Option(help="Only this execution; `last`: the newest.", metavar="RUN_ID")] = None,
    tail: Annotated[int, typer.Option(help="At most so many records, the newest.", min=1, max=1_000_000)] = 50,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Show the newest records, oldest first."""
    from moonpool.cli.audit_rows import print_rows

    sys.exit(print_rows(run, tail, as_json=json))


@app.command()
def verify(
    *,
    anchor: Annotated[
        str | None, typer.Option(help="A head that `verify` printed earlier; finds a cut-off end.", metavar="SEQ:HASH")
    ] = None,
) -> None:
    """Walk the hash chain. Exit code 1 when it is broken."""
    from moonpool.cli.audit_rows import verify_journal

    sys.exit(verify_journal(anchor))
