"""Log records of a command: one line each on stderr, behind the command's name as its remarks are."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from moonpool.cli.printer import remark

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
        except Exception:  # noqa: BLE001  an error in logging must not end the work that is logged
            text = f"a line of {record.name} cannot be shown"
        self._say(text + (f" ({kind.__name__})" if kind is not None else ""))


@contextmanager
def log_among(say: Callable[[str], None]) -> Generator[None]:
    """Pass log records inside the block to `say`, one line each.

    SECURITY: a warning may quote a server at a time that the server chooses. Written directly to the terminal it could
    imitate a question below an open one. A traceback may hold values, so only the exception's type is shown.
    """
    lines = _LogLines(say)
    logging.getLogger().addHandler(lines)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(lines)


def log_from(level: str) -> None:
    """Show Moonpool's own records from this level on, where no other handler takes them."""
    logging.getLogger("moonpool").setLevel(level)
    if logging.lastResort is not None:
        logging.lastResort.setLevel(level)


def log_as_remarks() -> None:
    """Pass records that no other handler takes to `remark`; with `MOONPOOL_DEBUG=1` they have their traceback."""
    if os.environ.get("MOONPOOL_DEBUG") != "1":
        logging.lastResort = _LogLines(remark)
