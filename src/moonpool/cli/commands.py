"""Commands with click, each in a module that is imported when the command is used.

A command's function returns its exit code; None is 0. `main` handles errors.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from moonpool.cli.exit_codes import EXIT_INTERRUPTED
from moonpool.cli.importing import no_collection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from click.shell_completion import CompletionItem


_SUMMARY_CHARS_MAX: Final = 1000


def _files(ctx: click.Context, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001  click's
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


class _Command(click.Command):
    def __init__(self, *args: Any, **options: Any) -> None:
        """Values that are paths, or called FILE, are completed by the shell as files."""
        super().__init__(*args, **options)
        for param in self.params:
            if "FILE" in (param.metavar or "") or getattr(param.type, "func", None) is Path or param.name == "file":
                param.shell_complete = _files

    def invoke(self, ctx: click.Context) -> Any:
        ctx.exit(super().invoke(ctx) or 0)


class _Group(click.Group):
    command_class = _Command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Every command with the whole first sentence of its help; click cuts it after one line."""
        listed = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, found.get_short_help_str(_SUMMARY_CHARS_MAX)) for name, found in listed if found is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

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

    def invoke(self, ctx: click.Context) -> Any:
        """See click, which would end an interrupted command like one that was answered with no."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort) as end:  # a prompt of click's makes an Abort of both Ctrl-C and Ctrl-D
            if isinstance(end, click.Abort) and not isinstance(end.__context__, KeyboardInterrupt):
                raise
            click.echo(err=True)
            ctx.exit(EXIT_INTERRUPTED)

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
allow_network_option = click.option(
    "--allow-network",
    multiple=True,
    metavar="DOMAIN",
    help="Let code reach this domain over HTTP(S), e.g. example.com or *.example.com; repeatable.",
)
json_lines = click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
json_object = click.option("--json", "as_json", is_flag=True, help="One JSON object.")
