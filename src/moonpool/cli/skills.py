"""`moonpool skills add|list|show|remove`: folders with a SKILL.md that models find and code reads.

SECURITY: what a skill's author wrote is printed with unprintable characters escaped, or as ASCII JSON.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from moonpool.bootstrap.stores import opened_stores
from moonpool.catalog.render import LINE_CHARS_MAX, first_sentence, one_line
from moonpool.cli.commands import command_group, json_lines
from moonpool.cli.exit_codes import EXIT_OK
from moonpool.cli.library_rows import change
from moonpool.cli.printer import print_json, print_table, remark
from moonpool.cli.service_data import ChosenTenant, tenant_options
from moonpool.core.errors import InputError
from moonpool.core.phrases import counted
from moonpool.features.library.model.skills import read_head, read_skill

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject
    from moonpool.features.library.model.entries import LibrarySource

_LEFT_OUT_SHOWN: Final = 10

_COLUMNS: Final = ("name", "files", "bytes", "description")

app = command_group("Skills: folders of instructions, scripts and files beside the tools.")


@app.command("add")
@click.argument("folder", type=Path, help="The folder that SKILL.md is in.")
@click.option("--replace", is_flag=True, help="Put it in the place of one of the same name.")
@click.option(
    "--config",
    type=Path,
    metavar="FILE",
    help="Whose secrets may not be in it. Default: ./moonpool.json, else what `moonpool init` wrote.",
)
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@tenant_options
def add(folder: Path, *, tenant: ChosenTenant, replace: bool, config: Path | None, as_json: bool) -> int:
    """Keep a copy of a skill's folder."""
    from moonpool.features.library.skill_folder import add_skill

    added = change(tenant, config, lambda changes: add_skill(changes, folder, replace=replace))
    entry, left_out = added.entry, added.left_out
    if as_json:
        print_json(
            {
                "path": entry.path,
                "name": entry.name,
                "digest": entry.digest,
                "files": len(entry.files),
                "leftOut": [*left_out],
            }
        )
        return EXIT_OK
    click.echo(f"kept {entry.path}: {counted(len(entry.files), 'file')}, {entry.digest}")
    if left_out:
        named = ", ".join(ascii(path)[1:-1] for path in left_out[:_LEFT_OUT_SHOWN])
        more = f" and {len(left_out) - _LEFT_OUT_SHOWN} more" if len(left_out) > _LEFT_OUT_SHOWN else ""
        remark(f"left out: {named}{more}")
    return EXIT_OK


@app.command("list")
@json_lines
@tenant_options
def list_(*, tenant: ChosenTenant, as_json: bool) -> None:
    """List all skills."""
    with opened_stores(tenant.settings, tenant.data, tenant.tenant_id) as stores:
        kept = stores.library().load()
    skills = [source for source in kept.sources if source.kind == "skill"]
    problems = [str(problem) for problem in kept.problems if str(problem).startswith("skill ")]
    rows: list[JsonObject] = []
    for source in skills:
        try:
            rows.append(_json(source))
        except InputError as error:
            problems.append(f"skill {source.name!r} is left out: {error}")
    if as_json:
        for row in rows:
            print_json({name: row[name] for name in ("name", "path", "description", "digest", "files")})
    elif rows:
        sizes = {source.name: source.size for source in skills}
        print_table(_COLUMNS, ((str(row["name"]), *_figures(row, sizes), _about(row)) for row in rows))
    for problem in problems:
        remark(f"{one_line(problem, 400)}")
    if not rows and not problems:
        remark("no skills; `moonpool skills add FOLDER` keeps one")


@app.command("show")
@click.argument("name", help="As `list` shows it.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@tenant_options
def show(name: str, *, tenant: ChosenTenant, as_json: bool) -> None:
    """Show a skill's description, its files, and the text that a model reads on demand."""
    with opened_stores(tenant.settings, tenant.data, tenant.tenant_id) as stores:
        source = stores.library().find("skill", name)
    if source is None:
        raise InputError(f"there is no skill {name!r}; `moonpool skills list` shows all")
    shown = _json(source)
    if as_json:
        print_json(shown)
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
    click.echo("\n".join(told))


@app.command("remove")
@click.argument("name", help="As `list` shows it.")
@tenant_options
def remove(name: str, *, tenant: ChosenTenant) -> int:
    """Forget a skill."""
    change(tenant, None, lambda changes: changes.remove("skill", name), keeps_something=False)
    click.echo(f"skills.{name} is removed")
    return EXIT_OK


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
