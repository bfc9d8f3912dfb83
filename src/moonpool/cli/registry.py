"""`moonpool registry add`: a server of an MCP Registry as configuration."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003  typer reads the annotations
from typing import Annotated, Literal

import typer

from moonpool.cli.command_group import command_group

app = command_group("Servers of MCP Registries.")


@app.callback()
def _group() -> None:
    """Keep `add` a command of its own although it is the only one."""


@app.command()
def add(
    source: Annotated[
        str, typer.Argument(help="A server.json, or a name where the setting `registry` names one.", metavar="SOURCE")
    ],
    *,
    name: Annotated[str | None, typer.Option(help="What to call the server here.", metavar="NAME")] = None,
    use: Annotated[
        Literal["npm", "pypi", "oci", "remote"] | None, typer.Option(help="Which of the ways that it offers.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option(help="Write here. Default: what `moonpool init` writes.", metavar="FILE")
    ] = None,
    runtime_arguments: Annotated[
        bool, typer.Option("--runtime-arguments", help="Take over arguments to npx, uvx or docker themselves.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Write without asking.")] = False,
) -> None:
    """Show a registry's server as configuration and, after a yes, write it. Nothing is started or downloaded."""
    from moonpool.cli.registry_import import add_server

    sys.exit(add_server(source, name=name, use=use, to=to, runtime_arguments=runtime_arguments, yes=yes))
