"""`moonpool version`."""

from __future__ import annotations

import click

from moonpool.cli.commands import command
from moonpool.core.version import VERSION


@command
def version() -> None:
    """Print the version."""
    click.echo(f"moonpool {VERSION}")
