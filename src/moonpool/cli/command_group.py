"""How every group of commands is made: plain help, no completion script, no tracebacks with local variables.

Help is plain text because typer's rich help imports a Markdown renderer and a highlighter, which alone costs more than
`--help` may (0.25 s).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from moonpool.cli.plain_parameters import PlainCommand, PlainGroup

if TYPE_CHECKING:
    from collections.abc import Callable


class _Commands(typer.Typer):
    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """See typer."""
        return super().command(name, cls=PlainCommand, **options)


def command_group(help_: str) -> typer.Typer:
    """An empty group."""
    return _Commands(
        help=help_,
        cls=PlainGroup,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
