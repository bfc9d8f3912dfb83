"""Where the log of a command goes that may ask a person: among its own remarks, a line each.

SECURITY: a warning may quote a server, which chooses when it is written. Straight to the terminal it could stand below
an open question, in lines that look like one. A traceback may hold values; only its kind is told.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


class _LogLines(logging.Handler):
    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001  a slip in a line of the log must not end what is logged
            text = f"a line of {record.name} cannot be shown"
        self._say(text + (f" ({kind.__name__})" if kind is not None else ""))


@contextmanager
def log_among(say: Callable[[str], None]) -> Generator[None]:
    """What is logged within a `with` block is said by `say`."""
    lines = _LogLines(say)
    logging.getLogger().addHandler(lines)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(lines)
