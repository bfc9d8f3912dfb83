"""`moonpool actions save|list|show|remove`: code that worked, kept under a name for later code to import."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  typer reads the annotations
from typing import Annotated

import typer

from moonpool.cli.command_group import command_group

app = command_group("Saved actions: code that worked, which later code imports.")

Name = Annotated[str, typer.Argument(help="As code imports it below `actions`.", metavar="NAME")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]


@app.command()
def save(
    name: Annotated[str, typer.Argument(help="NAME or CATEGORY.NAME, as code will import it.", metavar="NAME")],
    *,
    file: Annotated[
        str | None, typer.Option("--file", help="Code with a function `run`; `-` reads standard input.", metavar="FILE")
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", help="The code of this execution (`last`: the newest).", metavar="RUN_ID"),
    ] = None,
    description: Annotated[
        str, typer.Option(help="What it is for. Default: the first lines of its docstring.", metavar="TEXT")
    ] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Put it in the place of one of that name.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Whose secrets may not be in it. Default: ./moonpool.json, else what `moonpool init` wrote.",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Keep code with a typed `run` under a name. It is parsed, not run."""
    from moonpool.cli.action_rows import save_action

    save_action(name, file=file, run_id=from_, description=description, replace=replace, config=config)


@app.command(name="list")
def list_(*, json: Json = False) -> None:
    """List all saved actions, and say which cannot be used."""
    from moonpool.cli.action_rows import print_actions

    print_actions(as_json=json)


@app.command()
def show(
    name: Name,
    *,
    code: Annotated[bool, typer.Option("--code", help="The code instead of its interface.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show how an action is called, or its code."""
    from moonpool.cli.action_rows import show_action

    show_action(name, code=code, as_json=json)


@app.command()
def remove(name: Name) -> None:
    """Remove an action. Code that imports it fails from its next execution on."""
    from moonpool.cli.action_rows import remove_action

    remove_action(name)
