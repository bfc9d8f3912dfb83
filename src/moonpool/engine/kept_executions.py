"""What is left on disk of executions that outlive their requests: a mark while one runs, its outcome when it has ended.

A mark is written before anybody is told the execution's id, so that after a restart the id is not simply unknown: it
names the principal and the process. Outcomes are `engine.outcomes`. Code is never run again from either.

SECURITY: an id is looked up for one principal; another's is found as little as one that never was.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.core.phrases import on_one_line
from moonpool.engine.outcomes import AGE_S_MAX
from moonpool.store.private_files import private_folder, read_own_file, replace_private_file
from moonpool.store.process_marks import is_gone, own_mark

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonObject
    from moonpool.engine.outcomes import OutcomeStore

MARK_COUNT_MAX: Final = 2_000
_MARK_BYTES_MAX: Final = 4_096
EXECUTION_ID: Final = re.compile(r"run_[0-9a-f]{32}")
_SHOWN_CHARS: Final = 60
_log = logging.getLogger(__name__)


class ExecutionUnknownError(MoonpoolError):
    """There is no such execution of this principal, or its outcome is kept no more."""

    code = "execution_unknown"
    fault = Fault.CALLER

    def __init__(self, execution_id: str) -> None:
        shown = on_one_line(execution_id[:_SHOWN_CHARS])
        super().__init__(
            f"there is no execution {shown!r} of yours: use the id that its first answer had; outcomes are kept for a "
            "week at most"
        )


class ExecutionLostError(MoonpoolError):
    """The process that ran the execution has ended before it. Its code is not run again."""

    code = "execution_lost"
    fault = Fault.HOST
    _names_host = False

    def __init__(self, execution_id: str) -> None:
        super().__init__(
            f"{execution_id} is lost: the server that ran it was stopped before it ended. It is not run again; calls "
            "that it made stay made, so look at what it did before you run the code anew"
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """What is known of an execution that is not in memory."""

    lost: bool  # the process that ran it has ended before it


class KeptExecutions(Protocol):
    """Marks and outcomes of one tenant's executions: in files (`ExecutionFiles`), or in a database that replicas share
    (`moonpool.engine.shared_executions`). What cannot be kept is logged: the execution goes on.
    """

    async def mark(self, execution_id: str, principal: str) -> None:
        """Remember that it runs, before anybody has its id."""
        ...

    async def keep(self, envelope: Envelope, principal: str) -> None:
        """Keep the outcome of one that nobody waited for, or may ask for again."""
        ...

    async def end(self, execution_id: str, principal: str) -> None:
        """It has ended, so it is not lost, even when its outcome is kept no more."""
        ...

    async def forget(self, execution_id: str) -> None:
        """It came to no outcome, and whoever asked for that knows it."""
        ...

    async def find(
        self, execution_id: str, principal: str, *, within_s: float = 0.0, cancel: bool = False
    ) -> JsonObject | None:
        """The envelope of one that is not in this process's memory. None: another replica runs it and has not ended it
        `within_s`; `cancel` has it ended there.

        Raises ExecutionUnknownError, ExecutionLostError, ExecutionCancelledError, DatabaseError.
        """
        ...


class ExecutionMarks:
    """One small file for each, in a private folder. Blocking: call from a worker thread."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._process = folder, own_mark()

    def write(self, execution_id: str, principal: str) -> None:
        """It runs here. Durable when this returns. Raises StoreFolderError, OSError."""
        self._replace(execution_id, principal, self._process)
        self._tidy()

    def end(self, execution_id: str, principal: str) -> None:
        """It has ended, and its outcome was kept. Raises StoreFolderError, OSError."""
        self._replace(execution_id, principal, None)

    def remove(self, execution_id: str) -> None:
        """Raises OSError."""
        (self._folder / f"{execution_id}.json").unlink(missing_ok=True)

    def find(self, execution_id: str, principal: str) -> Mark | None:
        """What is known of this principal's execution."""
        if EXECUTION_ID.fullmatch(execution_id) is None:
            return None
        try:
            found = json.loads(read_own_file(self._folder / f"{execution_id}.json", bytes_max=_MARK_BYTES_MAX))
            whose, process = found["principal"], found["process"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        if whose != principal:
            return None
        # One that cannot be seen from here, such as that of the container before, runs no more.
        runs = process == self._process or (isinstance(process, str) and is_gone(process) is False)
        return Mark(lost=process is not None and not runs)

    def _replace(self, execution_id: str, principal: str, process: str | None) -> None:
        content = json.dumps({"principal": principal, "process": process}).encode()
        path = private_folder(self._folder) / f"{execution_id}.json"
        replace_private_file(path, content, durable=process is not None)

    def _tidy(self) -> None:
        ages: list[tuple[float, Path]] = []
        for path in self._folder.glob("run_*.json"):
            with suppress(OSError):  # another process was faster
                ages.append((path.stat().st_mtime, path))
        newest = max(ages, default=(0.0, None))[0]
        for place, (written, path) in enumerate(sorted(ages, reverse=True)):
            if place >= MARK_COUNT_MAX or newest - written > AGE_S_MAX:
                path.unlink(missing_ok=True)


class ExecutionFiles:
    """The `KeptExecutions` of a tenant in its folder."""

    def __init__(self, marks: ExecutionMarks, outcomes: OutcomeStore) -> None:
        self._marks, self._outcomes = marks, outcomes

    async def mark(self, execution_id: str, principal: str) -> None:
        try:
            await asyncio.to_thread(self._marks.write, execution_id, principal)
        except (OSError, MoonpoolError) as error:
            _log.error("%s is not remembered across a restart: %s", execution_id, error)

    async def keep(self, envelope: Envelope, principal: str) -> None:  # noqa: ARG002  see `KeptExecutions`
        try:
            await asyncio.to_thread(self._outcomes.keep, envelope.run_id, envelope.to_json())
        except (OSError, MoonpoolError) as error:
            _log.error("the outcome of %s could not be kept: %s", envelope.run_id, error)

    async def end(self, execution_id: str, principal: str) -> None:
        try:
            await asyncio.to_thread(self._marks.end, execution_id, principal)
        except (OSError, MoonpoolError) as error:
            _log.warning("the end of %s could not be marked: %s", execution_id, error)

    async def forget(self, execution_id: str) -> None:
        try:
            await asyncio.to_thread(self._marks.remove, execution_id)
        except OSError as error:
            _log.warning("the mark of %s could not be removed: %s", execution_id, error)

    async def find(
        self, execution_id: str, principal: str, *, within_s: float = 0.0, cancel: bool = False
    ) -> JsonObject:
        del within_s, cancel  # nobody else's can be waited for
        found = await asyncio.to_thread(self._find, execution_id, principal)
        if found is None:
            raise ExecutionUnknownError(execution_id)
        return found

    def _find(self, execution_id: str, principal: str) -> JsonObject | None:
        mark = self._marks.find(execution_id, principal)
        if mark is None:
            return None
        outcome = self._outcomes.find(execution_id)
        if outcome is None and mark.lost:
            raise ExecutionLostError(execution_id)
        return outcome
