"""`moonpool recordings list|remove`: the recordings kept for replays."""

from __future__ import annotations

import os
from dataclasses import asdict

import click

from moonpool.bootstrap.recordings import open_recordings
from moonpool.cli.commands import command_group, json_lines
from moonpool.cli.config_choice import journal_of, run_named
from moonpool.cli.printer import print_json, print_table
from moonpool.core.errors import InputError
from moonpool.core.phrases import counted
from moonpool.settings import Settings

app = command_group("Recordings: code, arguments and results of executions, kept for replays.")


@app.command("list")
@click.option(
    "--count",
    type=click.IntRange(min=1, max=100000),
    metavar="COUNT",
    default=50,
    show_default=True,
    help="At most so many, the newest.",
)
@json_lines
def list_(*, count: int, as_json: bool) -> None:
    """List the newest recordings, newest first."""
    with open_recordings(Settings.load(os.environ), os.environ) as reader:
        found = reader.newest(count)
    if as_json:
        for ref in found:
            print_json(asdict(ref))
        return
    rows = ((one.run_id, one.at, one.session_id, str(one.position + 1), str(one.bytes), one.problem) for one in found)
    print_table(("run", "at", "session", "position", "bytes", "not replayable because"), rows)


@app.command("remove")
@click.argument("run_ids", metavar="[RUN_ID...]", nargs=-1, help="`last`: the newest.")
@click.option("--all", "all_", is_flag=True, help="All of them.")
def remove(run_ids: tuple[str, ...], *, all_: bool) -> int:
    """Remove recordings. The audit journal keeps its records. Exit code 1 when one that is named was not there."""
    if all_ == bool(run_ids):
        raise InputError("name the executions whose recordings to remove, or give --all")
    settings = Settings.load(os.environ)
    named = [run_named(one, journal_of(settings)) for one in run_ids]
    with open_recordings(settings, os.environ) as reader:
        removed = reader.remove(None if all_ else named)
    click.echo(f"removed {counted(removed, 'recording')}")
    return int(removed < len({*named}))
