"""Commands with click, each in a module that is imported when the command is used.

A command's function returns its exit code; None is 0. `main` handles errors.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moonpool.cli.importing import no_collection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class _Command(click.Command):
    def invoke(self, ctx: click.Context) -> Any:
        ctx.exit(super().invoke(ctx) or 0)


class _Group(click.Group):
    command_class = _Command

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's
        """The names in the order of their definition."""
        return list(self.commands)


class CommandIndex(_Group):
    """Commands by name; a command's module is imported on first use, its summary is known before."""

    def __init__(self, places: Mapping[str, tuple[str, str]], **options: Any) -> None:
        """`places` maps a name to the module below `moonpool.cli` and the summary."""
        summaries = {name: click.Command(name, help=summary) for name, (_, summary) in places.items()}
        super().__init__(commands=summaries, **options)
        self._modules = {name: module for name, (module, _) in places.items()}

    def load(self, name: str) -> click.Command:
        """Import the command `name`: its module's member of that name, or the module's group `app`."""
        with no_collection():
            module = import_module(f"moonpool.cli.{self._modules[name]}")
        found = getattr(module, "app", None) or getattr(module, name)
        assert isinstance(found, click.Command)
        return found

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, None if name is None or command is None else self.load(name), rest


def command_group(help_: str) -> click.Group:
    return _Group(help=help_)


def command(function: Callable[..., int | None]) -> click.Command:
    """A command with the function's name."""
    return click.command(cls=_Command)(function)


config_option = click.option(
    "--config",
    type=Path,
    metavar="FILE",
    help="Servers (mcpServers JSON). Default: ./moonpool.json, else what `moonpool init` wrote.",
)
json_lines = click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
json_object = click.option("--json", "as_json", is_flag=True, help="One JSON object.")
