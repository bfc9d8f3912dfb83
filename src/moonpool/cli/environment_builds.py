"""Listing and building environments."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import typer

from moonpool.bootstrap import sandbox_uid
from moonpool.cli.config_choice import data_folder
from moonpool.environments.progress import stderr_progress
from moonpool.environments.recipes import RECIPES
from moonpool.environments.resolve import is_built, resolve_environment
from moonpool.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.environments.base import Environment
    from moonpool.environments.recipes import EnvironmentRecipe


def print_environments() -> None:
    """One line per environment."""
    root = data_folder(Settings.load(os.environ)) / "environments"
    for name, recipe in RECIPES.items():
        typer.echo(f"{name}: {_state(recipe, root)}")


def _state(recipe: EnvironmentRecipe, root: Path) -> str:
    if recipe.lock is None:
        return "the standard library; nothing to build"
    built = any(path.is_dir() and not path.name.startswith(".") for path in (root / recipe.name).glob("*"))
    how = (
        "built" if built else f"not built yet; `moonpool environments build {recipe.name}`, or its first use, builds it"
    )
    return f"{', '.join(recipe.packages)}; {how}"


def offer_data(*, wanted: bool | None) -> None:
    """Build the environment `data` if that is wanted and not done; None: ask at a terminal, else say how."""
    root = data_folder(Settings.load(os.environ)) / "environments"
    if asyncio.run(is_built("data", root=root, uid=sandbox_uid())):
        return
    has = ", ".join(RECIPES["data"].packages)
    if wanted is None and sys.stdin.isatty():
        wanted = typer.confirm(f"Let code import {has}? That builds the environment `data` now (330 MB)", err=True)
    if wanted:
        build_environment("data")
    else:
        typer.echo(f"`moonpool environments build data` lets code of `moonpool mcp` import {has}")


def build_environment(name: str) -> None:
    """Build, then say where it is."""
    root = data_folder(Settings.load(os.environ)) / "environments"

    async def build() -> Environment:
        with stderr_progress() as progress:
            return await resolve_environment(name, root=root, uid=sandbox_uid(), progress=progress)

    environment = asyncio.run(build())
    typer.echo(f"{name}@{environment.digest}: ready")
