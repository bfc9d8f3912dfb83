"""`moonpool skills add|list|show|remove`: folders with a SKILL.md that models find and code reads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from moonpool.cli.command_group import command_group

Folder = Annotated[Path, typer.Argument(help="The folder that SKILL.md is in.", metavar="FOLDER")]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="Whose secrets may not be in it. Default: ./moonpool.json, else what `moonpool init` wrote.",
        metavar="FILE",
    ),
]
Name = Annotated[str, typer.Argument(help="As `list` shows it.", metavar="NAME")]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]

app = command_group("Skills: folders of instructions, scripts and files beside the tools.")


@app.command()
def add(
    folder: Folder,
    *,
    replace: Annotated[bool, typer.Option("--replace", help="Put it in the place of one of the same name.")] = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Keep a copy of a skill's folder."""
    from moonpool.cli.skill_reports import add_folder

    sys.exit(add_folder(folder, replace=replace, config=config, as_json=json))


@app.command(name="list")
def list_(*, json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False) -> None:
    """List the skills that are kept."""
    from moonpool.cli.skill_reports import print_skills

    print_skills(as_json=json)


@app.command()
def show(name: Name, *, json: Json = False) -> None:
    """Show what a skill says of itself, its files, and the text that a model reads on demand."""
    from moonpool.cli.skill_reports import print_skill

    print_skill(name, as_json=json)


@app.command()
def remove(name: Name) -> None:
    """Forget a skill."""
    from moonpool.cli.skill_reports import remove_skill

    sys.exit(remove_skill(name))
