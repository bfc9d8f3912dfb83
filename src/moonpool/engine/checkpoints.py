"""Undo and fork of one session, on record. The use case behind every face; how it works: `engine.branches`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from moonpool.core.audit_records import CheckpointRecord, time_stamp
from moonpool.core.errors import MoonpoolError
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from moonpool.core.audit import Journal
    from moonpool.engine.branches import Branch, Checkpoint, Undone
    from moonpool.pipeline.call_counters import SentCall
    from moonpool.redaction.redactor import Redactor
    from moonpool.sandboxes.base import Sandbox


class ForkedSession(Protocol):
    """What a fork must offer here."""

    session_id: str

    async def close(self) -> None: ...


_S = TypeVar("_S", bound=ForkedSession)
_S_co = TypeVar("_S_co", bound=ForkedSession, covariant=True)


class CheckpointedSession(Protocol[_S_co]):
    """What a session offers here (`moonpool.engine.sessions.Session`)."""

    def in_use(self) -> AbstractAsyncContextManager[Sandbox]:
        """The sandbox with the session's state, no code running in it and none that starts meanwhile.

        Raises CheckpointError.
        """
        ...

    def forked(self, branch: Branch) -> _S_co:
        """A session that goes on in the same sandbox, by turns."""
        ...


@dataclass(frozen=True, slots=True)
class CheckpointRecorder:
    """Records what was put back and forked of one session."""

    journal: Journal
    redactor: Redactor
    principal: str
    session_id: str

    async def record(
        self, action: str, name: str, *, undone: Undone | None = None, forked: str = "", error: str = ""
    ) -> None:
        """Put it on record. Raises JournalError."""
        await self.journal.record(
            CheckpointRecord(
                run_id=f"checkpoint_{token_hex(16)}",
                at=time_stamp(datetime.now(UTC)),
                principal=self.principal,
                session_id=self.session_id,
                action=action,
                name=self.redactor.text(name, Counter()),
                undone=() if undone is None else undone.runs,
                changing_calls=0 if undone is None else sum(call.changes for call in undone.calls),
                forked_session=forked,
                error_type=error,
            )
        )


class SessionCheckpoints(Generic[_S]):
    """The checkpoints of one session."""

    def __init__(self, session: CheckpointedSession[_S], branch: Branch, recorder: CheckpointRecorder) -> None:
        self._session, self._branch, self._recorder = session, branch, recorder

    @property
    def kept(self) -> tuple[Checkpoint, ...]:
        """The oldest first."""
        return tuple(self._branch.kept)

    async def take(self, name: str) -> Checkpoint:
        """Keep the state as it is, under a name. Raises CheckpointError, InputError."""
        async with self._session.in_use() as sandbox:
            return await self._branch.checkpoint(sandbox, name)

    async def undo(self, n: int = 1, *, to: Checkpoint | None = None) -> Undone:
        """Put variables and files back to what they were before the last `n` executions, or at a checkpoint.

        Raises CheckpointError, InputError.
        """
        async with self._session.in_use() as sandbox:
            return await finish(self._undo(sandbox, n, to))

    async def _undo(self, sandbox: Sandbox, n: int, to: Checkpoint | None) -> Undone:
        try:
            undone = await self._branch.undo(sandbox, n, to)
        except MoonpoolError as error:
            await self._recorder.record("undone", "" if to is None else to.name, error=error.code)
            raise
        await self._recorder.record("undone", undone.checkpoint.name, undone=undone)
        return undone

    async def recover(self, sandbox: Sandbox, run_id: str, calls: Sequence[SentCall]) -> Undone | None:
        """The process of `sandbox` that ran code has ended in this execution: see `Branch.recover`."""
        undone = await self._branch.recover(sandbox, run_id, calls)
        if undone is not None:
            await self._recorder.record("recovered", undone.checkpoint.name, undone=undone)
        return undone

    async def fork(self) -> _S:
        """Another session that begins with the state of this one, in the same sandbox. Raises CheckpointError."""
        made: list[_S] = []
        try:
            async with self._session.in_use() as sandbox:
                await finish(self._fork(sandbox, made))
        except BaseException:  # cancelled, or not on record
            for session in made:
                await session.close()
            raise
        return made[0]

    async def _fork(self, sandbox: Sandbox, made: list[_S]) -> None:
        made.append(self._session.forked(await self._branch.fork(sandbox)))
        await self._recorder.record("forked", "", forked=made[0].session_id)
