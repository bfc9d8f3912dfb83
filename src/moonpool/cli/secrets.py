"""`moonpool secrets set|list|remove`: values for `${secret:NAME}` in server configurations."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from moonpool.cli.command_group import command_group

app = command_group("Stored secrets, for ${secret:NAME} in server configurations.")
Name = Annotated[str, typer.Argument(help="Letters, digits, _, - and dots.", metavar="NAME")]


@app.command(name="set")
def set_(name: Name) -> None:
    """Store a value: typed at a prompt that does not show it, or read from standard input."""
    from moonpool.cli.secret_values import set_secret

    sys.exit(set_secret(name))


@app.command(name="list")
def list_() -> None:
    """List the names, never the values."""
    from moonpool.cli.secret_values import list_secrets

    sys.exit(list_secrets())


@app.command()
def remove(name: Name) -> None:
    """Forget a value. Exit code 1 when there was none."""
    from moonpool.cli.secret_values import remove_secret

    sys.exit(remove_secret(name))
