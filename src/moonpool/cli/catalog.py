"""`moonpool catalog build-model`: prepare vector search for tools."""

from __future__ import annotations

import os

import click

from moonpool.bootstrap.models import make_model
from moonpool.cli.commands import command_group
from moonpool.cli.config_choice import data_folder
from moonpool.cli.printer import remark
from moonpool.embeddings.arrays import need_extra
from moonpool.settings import Settings

app = command_group("Search for tools.")


@app.command("build-model")
@click.argument(
    "model", type=click.Choice(["minilm"]), metavar="[MODEL]", default="minilm", help="minilm (default): 23 MB."
)
def build_model(model: str) -> None:
    """Download the published weights (84 MB) and build the model for vector search."""
    need_extra()
    remark("fetching the weights and making the model; this takes a few minutes")
    size = make_model(data_folder(Settings.load(os.environ)), os.environ)
    click.echo(f"{model}: {size / 1_000_000:.1f} MB, ready; use it with MOONPOOL_DENSE={model}")
