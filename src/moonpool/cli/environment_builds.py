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
from moonpool.environments.resolve import resolve_environment
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
    packages = ", ".join(name for name in recipe.preload if "." not in name and name not in sys.stdlib_module_names)
    built = any(path.is_dir() and not path.name.startswith(".") for path in (root / recipe.name).glob("*"))
    how = (
        "built" if built else f"not built yet; `moonpool environments build {recipe.name}`, or its first use, builds it"
    )
    return f"{packages}; {how}"


def build_environment(name: str) -> None:
    """Build, then say where it is."""
    root = data_folder(Settings.load(os.environ)) / "environments"

    async def build() -> Environment:
        with stderr_progress() as progress:
            return await resolve_environment(name, root=root, uid=sandbox_uid(), progress=progress)

    environment = asyncio.run(build())
    typer.echo(f"{name}@{environment.digest}: ready")
