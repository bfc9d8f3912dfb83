"""The request of one `moonpool run`: its options, its files, and how its line is printed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.cli.standard_streams import sentence_and_code

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from moonpool.cli.approvers import Approve
    from moonpool.cli.program_output import ProgramOutput
    from moonpool.cli.transfers import Files, Transfer
    from moonpool.core.json import JsonValue
    from moonpool.engine.code_request import CodeRequest
    from moonpool.network.rules import NetworkRules
    from moonpool.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """The parsed command line."""

    file: str | None
    inline: str | None
    language: str | None
    config: Path | None
    policy: Path | None
    session: str | None
    timeout_s: float | None
    environment: str | None
    backend: str | None
    approve: Approve
    puts: tuple[str, ...] = ()
    gets: tuple[str, ...] = ()
    force: bool = False
    dry_run: bool = False
    plan_first: bool = False
    plan: str | None = None
    placeholders: Path | None = None
    allow_network: tuple[str, ...] = ()
    workspace: Path | None = None
    as_json: bool = False  # print JSON on a terminal, too


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """Files to send before the code runs and to fetch after it.

    A file that cannot be sent stops the run before it begins. A file that cannot be fetched is reported on stderr and
    makes the exit code 1; the envelope is still printed, after the files have arrived.
    """

    puts: tuple[Transfer, ...] = ()
    gets: tuple[Transfer, ...] = ()
    force: bool = False

    async def send(self, files: Files) -> None:
        """Send everything. Raises MoonpoolError; then nothing is run."""
        if self.puts:
            from moonpool.cli.transfers import put_all

            await put_all(files, self.puts)

    async def fetch(self, files: Files, say: Callable[[str], None]) -> bool:
        """Fetch files and report missing ones; returns whether all were fetched."""
        complete = True
        for transfer in self.gets:
            from moonpool.cli.transfers import get_file

            try:
                await get_file(files, transfer.path, transfer.local, force=self.force)
            except Exception as error:  # noqa: BLE001  the code has run, so its line must be printed
                say(sentence_and_code(error))
                complete = False
            except asyncio.CancelledError:  # a signal; the code has run, so its line must be printed
                say(f"interrupted while {transfer.path!r} was fetched; nothing of it was kept")
                if (task := asyncio.current_task()) is not None:
                    task.uncancel()
                return False
        return complete


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """Shared by both ways of running."""

    order: RunOrder
    settings: Settings
    source: CodeRequest
    output: ProgramOutput
    files: RunFiles
    placeholders: Mapping[str, JsonValue]
    network: NetworkRules | None
    answer: Callable[[bytes, bool], None]  # the line, and whether all succeeded; called at most once

    async def hand_over(self, line: bytes, ok: bool, files: Files) -> None:
        """Fetch files, flush the code's output, print the line.

        INVARIANT: the line is printed even if an earlier step fails: the envelope exists and is on record.
        """
        fetched = False
        try:
            fetched = await self.files.fetch(files, self.output.say)
            self.output.end_line()
            await self.output.drain()
        finally:
            self.answer(line, ok and fetched)
