"""Files of one `moonpool run`: sent before the code, fetched after it.

What cannot be sent stops the run before it begins. What cannot be fetched is said on stderr and makes the exit code 1;
the envelope is printed all the same, after the files, so whoever reads it finds them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.cli.standard_streams import sentence_and_code

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.cli.transfers import Files, Transfer


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """What to send and to fetch."""

    puts: tuple[Transfer, ...] = ()
    gets: tuple[Transfer, ...] = ()
    force: bool = False

    async def send(self, files: Files) -> None:
        """Send everything. Raises MoonpoolError; nothing is run then."""
        if self.puts:
            from moonpool.cli.transfers import put_all

            await put_all(files, self.puts)

    async def fetch(self, files: Files, say: Callable[[str], None]) -> bool:
        """Fetch what is there; say what is not. Whether everything was."""
        complete = True
        for transfer in self.gets:
            from moonpool.cli.transfers import get_file

            try:
                await get_file(files, transfer.path, transfer.local, force=self.force)
            except Exception as error:  # noqa: BLE001  whatever it is: the code has run, so its line is owed
                say(sentence_and_code(error))
                complete = False
            except asyncio.CancelledError:  # a signal; the code has run, so its line is owed
                say(f"interrupted while {transfer.path!r} was fetched; nothing of it was kept")
                if (task := asyncio.current_task()) is not None:
                    task.uncancel()
                return False
        return complete
