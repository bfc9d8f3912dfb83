"""Keeping and showing skills.

SECURITY: what a skill's author wrote reaches the terminal with everything that does not print written out, or as ASCII
JSON.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

import typer

from moonpool.catalog.render import LINE_CHARS_MAX, first_sentence, one_line
from moonpool.cli.config_choice import data_folder
from moonpool.cli.exit_codes import EXIT_OK
from moonpool.core.errors import InputError
from moonpool.core.skills import read_head, read_skill
from moonpool.settings import Settings
from moonpool.store.library import LibraryStore
from moonpool.store.paths import library_dir

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.core.json import JsonObject
    from moonpool.core.library import LibrarySource

_LEFT_OUT_SHOWN: Final = 10
_COLUMNS: Final = ("name", "files", "bytes", "description")


def add_folder(folder: Path, *, replace: bool, config: Path | None, as_json: bool) -> int:
    """Raises InputError, ConfigError, StoreFolderError, JournalError."""
    from moonpool.cli.library_rows import change
    from moonpool.runtime.skills import add_skill

    added = change(config, lambda changes: add_skill(changes, folder, replace=replace))
    entry, left_out = added.entry, added.left_out
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "path": entry.path,
                    "name": entry.name,
                    "digest": entry.digest,
                    "files": len(entry.files),
                    "leftOut": [*left_out],
                }
            )
        )
        return EXIT_OK
    count = len(entry.files)
    typer.echo(f"kept {entry.path}: {count} file{'s' if count != 1 else ''}, {entry.digest}")
    if left_out:
        named = ", ".join(ascii(path)[1:-1] for path in left_out[:_LEFT_OUT_SHOWN])
        more = f" and {len(left_out) - _LEFT_OUT_SHOWN} more" if len(left_out) > _LEFT_OUT_SHOWN else ""
        typer.echo(f"moonpool: left out: {named}{more}", err=True)
    return EXIT_OK


def print_skills(*, as_json: bool) -> None:
    """List all; name those that cannot be read on stderr."""
    kept = _store().load()
    skills = [source for source in kept.sources if source.kind == "skill"]
    problems = [str(problem) for problem in kept.problems if problem.kind == "skill"]
    rows: list[JsonObject] = []
    for source in skills:
        try:
            rows.append(_json(source))
        except InputError as error:
            problems.append(f"skill {source.name!r} is left out: {error}")
    if as_json:
        for row in rows:
            typer.echo(json.dumps({name: row[name] for name in ("name", "path", "description", "digest", "files")}))
    elif rows:
        from moonpool.cli.tables import print_table

        sizes = {source.name: source.size for source in skills}
        print_table(_COLUMNS, ((str(row["name"]), *_figures(row, sizes), _about(row)) for row in rows))
    for problem in problems:
        typer.echo(f"moonpool: {one_line(problem, 400)}", err=True)
    if not rows and not problems:
        typer.echo("moonpool: no skills; `moonpool skills add FOLDER` keeps one", err=True)


def print_skill(name: str, *, as_json: bool) -> None:
    """Raises InputError."""
    source = _store().find("skill", name)
    if source is None:
        raise InputError(f"there is no skill {name!r}; `moonpool skills list` shows all")
    shown = _json(source)
    if as_json:
        typer.echo(json.dumps(shown))
        return
    head = read_head(source.files, place=f"skill {name!r}")
    told = [
        f"{shown['path']}, {source.digest}",
        f"description: {one_line(head.description, 2_000)}",
        *([f"license: {head.license}"] if head.license else []),
        *([f"wants these tools (grants nothing): {' '.join(head.allowed_tools)}"] if head.allowed_tools else []),
        *(f"metadata: {key} = {text}" for key, text in head.metadata.items()),
        "",
        "what a model reads on demand:",
        "",
        str(shown["definition"]),
    ]
    typer.echo("\n".join(told))


def remove_skill(name: str) -> int:
    """Raises InputError, StoreFolderError, JournalError."""
    from moonpool.cli.library_rows import change

    change(None, lambda changes: changes.remove("skill", name), keeps_something=False)
    typer.echo(f"skills.{name} is removed")
    return EXIT_OK


def _store() -> LibraryStore:
    return LibraryStore(library_dir(data_folder(Settings.load(os.environ))))


def _json(source: LibrarySource) -> JsonObject:
    head, entry = read_head(source.files, place=f"skill {source.name!r}"), read_skill(source)
    return {
        "name": entry.name,
        "path": entry.path,
        "description": entry.description,
        "license": head.license,
        "compatibility": head.compatibility,
        "allowedTools": [*head.allowed_tools],
        "metadata": dict(head.metadata),
        "digest": source.digest,
        "files": {path: len(content) for path, content in source.files.items()},
        "definition": entry.definition,
    }


def _figures(row: JsonObject, sizes: dict[str, int]) -> tuple[str, str]:
    files = row["files"]
    assert isinstance(files, dict)
    return str(len(files)), f"{sizes[str(row['name'])]:,}"


def _about(row: JsonObject) -> str:
    return first_sentence(str(row["description"]), LINE_CHARS_MAX)
