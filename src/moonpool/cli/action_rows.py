"""Saved actions for people and programs.

SECURITY: what is printed may be a model's text; it is made printable first.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import typer

from moonpool.bootstrap import data_folder, open_recordings
from moonpool.bootstrap.library import library_store
from moonpool.cli.code_source import read_code
from moonpool.cli.last_run import run_named
from moonpool.cli.library_rows import change, printed, problem_on_stderr
from moonpool.cli.tables import print_table
from moonpool.core.errors import InputError
from moonpool.core.library import LibrarySource
from moonpool.core.library_bounds import ACTION_FILE, BYTES_MAX
from moonpool.runtime.code_reader import trim
from moonpool.runtime.library import LibraryShelf, entry_of
from moonpool.runtime.replay_source import code_that_worked
from moonpool.settings import Settings
from moonpool.store.paths import journal_path

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.core.json import JsonObject
    from moonpool.core.library import LibraryEntry


def save_action(
    name: str, *, file: str | None, run_id: str | None, description: str, replace: bool, config: Path | None
) -> None:
    """Keep an action, and say how code imports it. Raises InputError and what reading and writing raise."""
    if (file is None) == (run_id is None):
        raise InputError("give the code of the action either as --file FILE or as --from RUN_ID")
    if run_id is not None:
        run_id = run_named(run_id, data_folder(Settings.load(os.environ), os.environ))
    code = _code_of_run(run_id) if run_id is not None else read_code(file, None, bytes_max=BYTES_MAX["action"]).code
    source = LibrarySource(
        kind="action", name=name, files={ACTION_FILE: code}, description=description, run_id=run_id or ""
    )
    entry = change(config, lambda changes: changes.save(source, replace=replace))
    typer.echo(f"{entry.path} is saved ({entry.digest}); code imports it: from {entry.path} import run")


def print_actions(*, as_json: bool) -> None:
    """One line for each; what cannot be used is told on stderr."""
    store = library_store(Settings.load(os.environ), os.environ)
    kept, shown = store.load(), LibraryShelf(store, tell=problem_on_stderr).read()
    runs = {source.name: source.run_id for source in kept.sources if source.kind == "action"}
    actions = shown.library.of("action")
    if as_json:
        for entry in actions:
            typer.echo(json.dumps(_members(entry, runs.get(entry.name, ""))))
    elif actions:
        rows = ((entry.name, entry.description, entry.digest[:19], runs.get(entry.name, "")) for entry in actions)
        print_table(("action", "what it does", "digest", "from"), rows)
    else:
        typer.echo("no action is saved; `moonpool actions save NAME --from RUN_ID` saves one", err=True)


def show_action(name: str, *, code: bool, as_json: bool) -> None:
    """The interface or the code of one action. Raises InputError."""
    source = library_store(Settings.load(os.environ), os.environ).find("action", name)
    if source is None:
        raise InputError(f"there is no action {name!r}; `moonpool actions list` shows all")
    text = source.files[ACTION_FILE].decode()
    if as_json:
        entry = entry_of(source)
        more: JsonObject = {"definition": entry.definition, "parameters": entry.parameters}
        typer.echo(json.dumps({**_members(entry, source.run_id), **more, **({"code": text} if code else {})}))
    else:
        typer.echo(printed(text if code else entry_of(source).definition).rstrip("\n"))


def remove_action(name: str) -> None:
    """Raises InputError."""
    change(None, lambda changes: changes.remove("action", name), keeps_something=False)
    typer.echo(f"actions.{name} is removed")


def _code_of_run(run_id: str) -> bytes:
    settings = Settings.load(os.environ)
    with open_recordings(settings, os.environ) as reader:
        code = code_that_worked(reader, journal_path(data_folder(settings, os.environ)), run_id)
    trimmed, left_out = trim(code)
    for line in left_out:
        sys.stderr.write(f"moonpool: left out, because only that run needed it: {printed(line)}\n")
    return trimmed


def _members(entry: LibraryEntry, run_id: str) -> JsonObject:
    return {
        "name": entry.name,
        "path": entry.path,
        "description": entry.description,
        "digest": entry.digest,
        "from_run": run_id,
    }
