"""`last` in place of a run id: the newest execution on record that is no replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.core.errors import InputError
from moonpool.store.journal_file import newest_run
from moonpool.store.paths import journal_path

if TYPE_CHECKING:
    from pathlib import Path

LAST: Final = "last"


def run_named(name: str, data: Path) -> str:
    """The run id that `name` is or stands for. Raises InputError, JournalError."""
    if name != LAST:
        return name
    found = newest_run(journal_path(data))
    if found is None:
        raise InputError(f"no execution is on record in {journal_path(data)}, so there is no last one; run code first")
    return found
