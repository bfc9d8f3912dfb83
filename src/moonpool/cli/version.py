"""`moonpool version`."""

from __future__ import annotations

import click

import moonpool
from moonpool.cli.commands import command


@command
def version() -> None:
    """Print the version."""
    click.echo(f"moonpool {moonpool.__version__}")
