"""Recordings for people and programs: one line each."""

from __future__ import annotations

import json
import os
from dataclasses import asdict

import typer

from moonpool.bootstrap.recordings import open_recordings
from moonpool.cli.config_choice import data_folder
from moonpool.cli.last_run import run_named
from moonpool.cli.tables import print_table
from moonpool.core.errors import InputError
from moonpool.settings import Settings


def print_recordings(count: int, *, as_json: bool) -> None:
    """Print the newest. Raises RecordingError."""
    with open_recordings(Settings.load(os.environ), os.environ) as reader:
        found = reader.newest(count)
    if as_json:
        for ref in found:
            typer.echo(json.dumps(asdict(ref)))
        return
    rows = ((one.run_id, one.at, one.session_id, str(one.position + 1), str(one.bytes), one.problem) for one in found)
    print_table(("run", "at", "session", "position", "bytes", "not replayable because"), rows)


def remove_recordings(run_ids: list[str], *, all_: bool) -> None:
    """Remove these or all, and say how many. Raises RecordingError, InputError."""
    if all_ == bool(run_ids):
        raise InputError("name the executions whose recordings to remove, or give --all")
    settings = Settings.load(os.environ)
    named = [run_named(one, data_folder(settings)) for one in run_ids]
    with open_recordings(settings, os.environ) as reader:
        removed = reader.remove(None if all_ else named)
    typer.echo(f"{removed} recordings removed")
