"""`moonpool environments list|build`: what sandboxes start from."""

from __future__ import annotations

from typing import Annotated

import typer

from moonpool.cli.command_group import command_group

app = command_group("Environments: interpreter and packages that sandboxes start from.")


@app.command(name="list")
def list_() -> None:
    """List the environments and whether they are built."""
    from moonpool.cli.environment_builds import print_environments

    print_environments()


@app.command()
def build(name: Annotated[str, typer.Argument(help="base or data.", metavar="NAME")]) -> None:
    """Build an environment unless it is there already; shows its progress on stderr."""
    from moonpool.cli.environment_builds import build_environment

    build_environment(name)
