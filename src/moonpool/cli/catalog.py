"""`moonpool catalog build-model`: what the search for tools needs beside words."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from moonpool.cli.command_group import command_group

app = command_group("The search for tools.")


@app.callback()
def _group() -> None:
    """Keep `build-model` a command of its own although it is the only one."""


@app.command(name="build-model")
def build_model(
    _model: Annotated[Literal["minilm"], typer.Argument(help="A network, 23 MB.", metavar="MODEL")] = "minilm",
) -> None:
    """Fetch the published weights (84 MB) and make the model for vector search."""
    from moonpool.cli.catalog_models import build

    build()
