"""`moonpool environments list|build`: the packages that sandboxes start with."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import click

from moonpool.bootstrap import sandbox_uid
from moonpool.cli.commands import command_group
from moonpool.cli.config_choice import data_folder
from moonpool.environments.progress import stderr_progress
from moonpool.environments.recipes import RECIPES
from moonpool.environments.resolve import is_built, resolve_environment
from moonpool.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.environments.base import Environment
    from moonpool.environments.recipes import EnvironmentRecipe


app = command_group("Environments: interpreter and packages that sandboxes start from.")


@app.command("list")
def list_() -> None:
    """List the environments and whether they are built."""
    root = data_folder(Settings.load(os.environ)) / "environments"
    for name, recipe in RECIPES.items():
        click.echo(f"{name}: {_state(recipe, root)}")


@app.command("build")
@click.argument("name", help="base or data.")
def build(name: str) -> None:
    """Build an environment unless it exists; progress goes to stderr."""
    build_environment(name)


def _state(recipe: EnvironmentRecipe, root: Path) -> str:
    if recipe.lock is None:
        return "the standard library; nothing to build"
    built = any(path.is_dir() and not path.name.startswith(".") for path in (root / recipe.name).glob("*"))
    how = (
        "built" if built else f"not built yet; `moonpool environments build {recipe.name}`, or its first use, builds it"
    )
    return f"{', '.join(recipe.packages)}; {how}"


def offer_data(*, wanted: bool | None) -> None:
    """Build the environment `data` if wanted and not built yet; None: ask at a terminal, otherwise say how."""
    root = data_folder(Settings.load(os.environ)) / "environments"
    if asyncio.run(is_built("data", root=root, uid=sandbox_uid())):
        return
    has = ", ".join(RECIPES["data"].packages)
    if wanted is None and sys.stdin.isatty():
        wanted = click.confirm(f"Let code import {has}? That builds the environment `data` now (330 MB)", err=True)
    if wanted:
        build_environment("data")
    else:
        click.echo(f"`moonpool environments build data` lets code of `moonpool mcp` import {has}")


def build_environment(name: str) -> None:
    """Build, then say where it is."""
    root = data_folder(Settings.load(os.environ)) / "environments"

    async def build() -> Environment:
        with stderr_progress() as progress:
            return await resolve_environment(name, root=root, uid=sandbox_uid(), progress=progress)

    environment = asyncio.run(build())
    click.echo(f"{name}@{environment.digest}: ready")
