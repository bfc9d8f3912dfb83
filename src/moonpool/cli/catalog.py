"""`moonpool catalog build-model`: what the search for tools needs beside words."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from moonpool.bootstrap.models import make_model
from moonpool.cli.commands import command_group
from moonpool.cli.config_choice import data_folder
from moonpool.cli.printer import remark
from moonpool.embeddings.arrays import need_extra
from moonpool.settings import Settings

if TYPE_CHECKING:
    from moonpool.embeddings.models import DenseKind


app = command_group("The search for tools.")


@app.command("build-model")
@click.argument(
    "kind",
    type=click.Choice(["static", "minilm"]),
    metavar="[MODEL]",
    default="minilm",
    help="static: a table, 8 MB. minilm (default): a network, 23 MB, finds more.",
)
def build_model(kind: DenseKind) -> None:
    """Fetch the published weights (84 MB) and make the model for vector search."""
    need_extra()
    remark(f"fetching the weights and making the model {kind!r}; this takes a few minutes")
    size = make_model(kind, data_folder(Settings.load(os.environ)), os.environ)
    click.echo(f"{kind}: {size / 1_000_000:.1f} MB, ready; use it with MOONPOOL_DENSE={kind}")
