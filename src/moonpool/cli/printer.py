"""Prints answers to stdout as JSON, lines or tables, and our remarks to stderr.

SECURITY: strings may come from code, servers and models. A remark and a table cell stay on one line, and characters
that a terminal would act on or hide are made visible; JSON is ASCII.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_PIPE_WIDTH: Final = 200
_CODES: Final = {"bold": "1", "dim": "2", "red": "1;31", "green": "1;32", "yellow": "1;33", "cyan": "36"}


def print_json(members: Mapping[str, object], *, indent: int | None = None) -> None:
    """One object on one line, or indented."""
    click.echo(json.dumps(members, indent=indent))


def remark(text: str) -> None:
    """Print a remark to stderr, on its own line."""
    from moonpool.core.phrases import on_one_line

    click.echo(f"moonpool: {on_one_line(text)}", err=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> None:
    """Print rows of plain text with rich: as wide as the terminal; a pipe gets wide rows, so that nothing is cut."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*(escape(printable(cell)) for cell in row))
    console = Console(width=None) if Console().is_terminal else Console(width=_PIPE_WIDTH)
    console.print(table)


def printable(text: str) -> str:
    """`text` on one line, with `?` for what a terminal would act on.

    SECURITY: for words that servers, code or models chose: cells of tables, an address to open.
    """
    return "".join(char if char.isprintable() else "?" for char in text)


def printable_lines(text: str) -> str:
    """`printable` for text of several lines."""
    return "\n".join(map(printable, text.split("\n")))


@dataclass(frozen=True, slots=True)
class Colour:
    """Colours our own text on a terminal that supports it, unless NO_COLOR is set (https://no-color.org)."""

    shown: bool

    @classmethod
    def on(cls, fd: int) -> Self:
        """Colours for `fd`: none if it is no terminal or TERM is `dumb`."""
        return cls(os.isatty(fd) and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb")

    def of(self, tone: str, text: str) -> str:
        """`text` in `tone`: bold, dim, red, green, yellow or cyan."""
        return f"\x1b[{_CODES[tone]}m{text}\x1b[0m" if self.shown else text
