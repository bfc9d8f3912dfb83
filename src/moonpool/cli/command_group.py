"""How every group of commands is made: plain help, no completion script, no tracebacks with local variables.

Help is plain text because typer's rich help imports a Markdown renderer and a highlighter, which alone costs more than
`--help` may (0.25 s).
"""

from __future__ import annotations

import typer


def command_group(help_: str) -> typer.Typer:
    """An empty group."""
    return typer.Typer(
        help=help_,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
