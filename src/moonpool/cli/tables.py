"""Tables for people, by rich. A pipe gets them wide, so that nothing is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PIPE_WIDTH: Final = 200


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> None:
    """Print rows of plain text. SECURITY: control characters and rich markup in a cell are shown, not obeyed."""
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*(escape(printable(cell)) for cell in row))
    console = Console(width=None) if Console().is_terminal else Console(width=_PIPE_WIDTH)
    console.print(table)


def printable(text: str) -> str:
    """`text` without what a terminal would act on."""
    return "".join(char if char.isprintable() else "?" for char in text)
