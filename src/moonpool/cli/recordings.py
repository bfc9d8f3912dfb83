"""`moonpool recordings list|remove`: what is kept for replays."""

from __future__ import annotations

from typing import Annotated

import typer

from moonpool.cli.command_group import command_group

app = command_group("Recordings: what is kept of executions so that they can be replayed.")


@app.command(name="list")
def list_(
    *,
    count: Annotated[int, typer.Option(help="At most so many, the newest.", min=1, max=100_000)] = 50,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """List the newest recordings, newest first."""
    from moonpool.cli.recording_rows import print_recordings

    print_recordings(count, as_json=json)


@app.command()
def remove(
    runs: Annotated[
        list[str] | None, typer.Argument(help="`last`: the newest.", metavar="RUN_ID", show_default=False)
    ] = None,
    *,
    all_: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
) -> None:
    """Remove recordings. The audit journal keeps its records."""
    from moonpool.cli.recording_rows import remove_recordings

    remove_recordings(runs or [], all_=all_)
