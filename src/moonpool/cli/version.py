"""`moonpool version`."""

from __future__ import annotations

import typer


def version() -> None:
    """Print the version."""
    import moonpool

    typer.echo(f"moonpool {moonpool.__version__}")
