"""`moonpool receipt show|verify|key`: what an execution did, signed, for people who were not there."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003  typer reads the annotations
from typing import Annotated

import typer

from moonpool.cli.command_group import command_group

app = command_group("Receipts: the record of one execution, signed with this installation's key.")


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="The execution; `last`: the newest.", metavar="RUN_ID")],
    *,
    out: Annotated[Path | None, typer.Option(help="Write to this new file instead of stdout.", metavar="FILE")] = None,
) -> None:
    """Make the receipt of an execution from the audit journal, and sign it. The key is made at first use."""
    from moonpool.cli.receipt_files import write_receipt

    sys.exit(write_receipt(run, out))


@app.command()
def verify(
    file: Annotated[str, typer.Argument(help="The receipt; `-` reads standard input.", metavar="FILE")],
    *,
    key: Annotated[
        str | None,
        typer.Option(
            help="Who signed it, as `moonpool receipt key` printed it there, or a file with that.", metavar="KEY"
        ),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            help="Compare with this journal. Default: the installation's own, if its key signed it.", metavar="FILE"
        ),
    ] = None,
    envelope: Annotated[
        Path | None,
        typer.Option(help="The line that `moonpool run` printed: was it given out?", metavar="FILE"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Check a receipt: signature, hashes, and its place in the journal where there is one. Needs no network.

    Exit code 0 when it is good, 1 when it is not, 2 when that cannot be said.
    """
    from moonpool.cli.receipt_files import print_verdict

    sys.exit(print_verdict(file, key, journal, envelope, as_json=json))


@app.command()
def key(
    *,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Put a new key in its place first; receipts of the old one still verify.")
    ] = False,
) -> None:
    """Print the public key, for whoever verifies receipts elsewhere."""
    from moonpool.cli.receipt_files import print_key

    sys.exit(print_key(rotate=rotate))
