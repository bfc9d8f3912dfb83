"""Making the model for vector search."""

from __future__ import annotations

import os
import sys

import typer

from moonpool.bootstrap.models import make_model
from moonpool.cli.config_choice import data_folder
from moonpool.embeddings.arrays import need_extra
from moonpool.settings import Settings


def build() -> None:
    """Make it, then say how to use it. Raises DenseUnavailableError, before it says that it begins."""
    need_extra()
    sys.stderr.write("moonpool: fetching the weights and making the model; this takes a few minutes\n")
    size = make_model(data_folder(Settings.load(os.environ)), os.environ)
    typer.echo(f"minilm: {size / 1_000_000:.1f} MB, ready; use it with MOONPOOL_DENSE=minilm")
