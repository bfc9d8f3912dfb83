"""`moonpool actions save|list|show|remove`: code saved under a name for later code to import.

SECURITY: printed text may come from a model; it is made printable first.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moonpool.bootstrap import open_recordings
from moonpool.bootstrap.stores import opened_stores
from moonpool.cli.code_source import read_code
from moonpool.cli.commands import command_group, json_lines, json_object
from moonpool.cli.config_choice import journal_of, run_named
from moonpool.cli.library_rows import change, problem_on_stderr
from moonpool.cli.printer import print_json, print_table, printable_lines, remark
from moonpool.cli.service_data import ChosenTenant, tenant_options
from moonpool.code_reading.reader import trim
from moonpool.core.errors import InputError
from moonpool.features.library.model.bounds import ACTION_FILE, BYTES_MAX
from moonpool.features.library.model.entries import LibrarySource
from moonpool.features.library.service import LibraryView, entry_of
from moonpool.replay.source import code_that_worked

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject
    from moonpool.features.library.model.entries import LibraryEntry


app = command_group("Saved actions: code saved under a name for later code to import.")


@app.command("save")
@click.argument("name", help="NAME or CATEGORY.NAME, as code will import it.")
@click.option("--file", metavar="FILE", help="Code with a function `run`; `-` reads standard input.")
@click.option("--from", "run_id", metavar="RUN_ID", help="The code of this execution (`last`: the newest).")
@click.option(
    "--description", default="", metavar="TEXT", help="What it is for. Default: the first lines of its docstring."
)
@click.option("--replace", is_flag=True, help="Put it in the place of one of that name.")
@click.option(
    "--config",
    type=Path,
    metavar="FILE",
    help="Whose secrets may not be in it. Default: ./moonpool.json, else what `moonpool init` wrote.",
)
@tenant_options
def save(
    name: str,
    *,
    tenant: ChosenTenant,
    file: str | None,
    run_id: str | None,
    description: str,
    replace: bool,
    config: Path | None,
) -> None:
    """Keep code with a typed `run` under a name. It is parsed, not run."""
    if (file is None) == (run_id is None):
        raise InputError("give the code of the action either as --file FILE or as --from RUN_ID")
    if run_id is not None:
        run_id = run_named(run_id, journal_of(tenant.settings, tenant.org))
    code = (
        _code_of_run(tenant, run_id)
        if run_id is not None
        else read_code(file, None, bytes_max=BYTES_MAX["action"]).code
    )
    source = LibrarySource(
        kind="action", name=name, files={ACTION_FILE: code}, description=description, run_id=run_id or ""
    )
    entry = change(tenant, config, lambda changes: changes.save(source, replace=replace))
    click.echo(f"{entry.path} is saved ({entry.digest}); code imports it: from {entry.path} import run")


@app.command("list")
@json_lines
@tenant_options
def list_(*, tenant: ChosenTenant, as_json: bool) -> None:
    """List all saved actions, and say which cannot be used."""
    with opened_stores(tenant.settings, tenant.data, tenant.tenant_id) as stores:
        library = stores.library()
        kept, shown = library.load(), LibraryView(library, tell=problem_on_stderr).read()
    runs = {source.name: source.run_id for source in kept.sources if source.kind == "action"}
    actions = shown.library.of("action")
    if as_json:
        for entry in actions:
            print_json(_members(entry, runs.get(entry.name, "")))
    elif actions:
        rows = ((entry.name, entry.description, entry.digest[:19], runs.get(entry.name, "")) for entry in actions)
        print_table(("action", "what it does", "digest", "from"), rows)
    else:
        click.echo("no action is saved; `moonpool actions save NAME --from RUN_ID` saves one", err=True)


@app.command("show")
@click.argument("name", help="As code imports it below `actions`.")
@click.option("--code", is_flag=True, help="The code instead of its interface.")
@json_object
@tenant_options
def show(name: str, *, tenant: ChosenTenant, code: bool, as_json: bool) -> None:
    """Show how an action is called, or its code."""
    with opened_stores(tenant.settings, tenant.data, tenant.tenant_id) as stores:
        source = stores.library().find("action", name)
    if source is None:
        raise InputError(f"there is no action {name!r}; `moonpool actions list` shows all")
    text = source.files[ACTION_FILE].decode()
    if as_json:
        entry = entry_of(source)
        more: JsonObject = {"definition": entry.definition, "parameters": entry.parameters}
        print_json({**_members(entry, source.run_id), **more, **({"code": text} if code else {})})
    else:
        click.echo(printable_lines(text if code else entry_of(source).definition).rstrip("\n"))


@app.command("remove")
@click.argument("name", help="As code imports it below `actions`.")
@tenant_options
def remove(name: str, *, tenant: ChosenTenant) -> None:
    """Remove an action. Code that imports it fails from the next execution on."""
    change(tenant, None, lambda changes: changes.remove("action", name), keeps_something=False)
    click.echo(f"actions.{name} is removed")


def _code_of_run(tenant: ChosenTenant, run_id: str) -> bytes:
    with open_recordings(tenant.settings, os.environ, tenant.tenant_id) as reader:
        code = code_that_worked(reader, journal_of(tenant.settings, tenant.org), run_id)
    trimmed, left_out = trim(code)
    for line in left_out:
        remark(f"left out, because only that run needed it: {printable_lines(line)}")
    return trimmed


def _members(entry: LibraryEntry, run_id: str) -> JsonObject:
    return {
        "name": entry.name,
        "path": entry.path,
        "description": entry.description,
        "digest": entry.digest,
        "from_run": run_id,
    }
