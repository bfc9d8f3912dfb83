"""Writes what servers asked, and who answered, to the audit journal: one record per server request.

A record holds the digest of the request and the kind of the answer, never their content. It is written before the
server gets the answer: what cannot be recorded is refused.

INVARIANT: a server request leaves one record, also when its call is cancelled meanwhile; those that were not shown
leave a bounded number per minute and server, so that a server cannot fill the disk by asking.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from moonpool.core.audit import JournalError
from moonpool.core.audit_records import ServerRequestRecord, time_stamp
from moonpool.core.json import digest_json
from moonpool.core.phrases import storable
from moonpool.upstreams.server_requests import ASKED_FOR, INTERNAL, ServerRequestRefusedError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from moonpool.core.audit import Journal
    from moonpool.core.json import JsonObject
    from moonpool.policy import Decision

UNSHOWN_PER_MINUTE_MAX: Final = 20
REFUSED: Final = "refused"
CANCELLED: Final = "cancelled"
_NAME_CHARS_MAX: Final = 256


@dataclass(slots=True)
class ServerRequestNote:
    """What is known of a server request so far. `answer` is a kind: `accept`, `decline`, `cancel`, `answered`,
    `refused`.
    """

    answer: str = REFUSED
    why: str = ""  # nobody was asked, or nobody answered; our own words
    answerer: str = ""
    approver: str = ""  # who reviewed it
    decision: Decision | None = None
    shown: bool = False  # somebody was asked


class ServerRequestRecorder:
    """Records the requests of one broker's servers."""

    def __init__(self, journal: Journal, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._journal, self._clock = journal, clock
        self._unshown: dict[str, deque[float]] = defaultdict(deque)

    @asynccontextmanager
    async def recorded(self, server_id: str, method: str, params: JsonObject) -> AsyncGenerator[ServerRequestNote]:
        """Record the note at the end of the `with` block. Raises ServerRequestRefusedError when that fails."""
        note, since = ServerRequestNote(), self._clock()
        try:
            yield note
        except asyncio.CancelledError:
            note.answer = CANCELLED
            self._write(server_id, method, params, note, since)  # taken over at once, so nothing is waited for
            raise
        except ServerRequestRefusedError:
            note.answer = REFUSED
            await self._settled(server_id, method, params, note, since)
            raise
        await self._settled(server_id, method, params, note, since)

    async def _settled(
        self, server_id: str, method: str, params: JsonObject, note: ServerRequestNote, since: float
    ) -> None:
        try:
            written = self._write(server_id, method, params, note, since)
            if written is not None:
                await written
        except JournalError as exc:
            raise ServerRequestRefusedError("the client cannot record server requests now", code=INTERNAL) from exc

    def _write(
        self, server_id: str, method: str, params: JsonObject, note: ServerRequestNote, since: float
    ) -> Awaitable[None] | None:
        if not note.shown and not self._room(server_id):
            return None
        return self._journal.record(_record(server_id, method, params, note, (self._clock() - since) * 1000))

    def _room(self, server_id: str) -> bool:
        now, written = self._clock(), self._unshown[server_id]
        while written and now - written[0] >= 60:
            written.popleft()
        if len(written) >= UNSHOWN_PER_MINUTE_MAX:
            return False
        written.append(now)
        return True


def _record(
    server_id: str, method: str, params: JsonObject, note: ServerRequestNote, duration_ms: float
) -> ServerRequestRecord:
    calls, decision = ASKED_FOR.get(), note.decision
    contexts = {call.context.identity.run_id: call.context for call in calls}
    # An execution that is over has its last record: what comes later stands beside it, under no run id.
    [only] = contexts.values() if len(contexts) == 1 else [None]
    own = only.identity if only is not None and not only.counters.ended else None
    tools = {call.tool for call in calls}
    return ServerRequestRecord(
        run_id=own.run_id if own else "",
        trace_id=own.trace_id if own else "",
        at=time_stamp(datetime.now(UTC)),
        principal=storable(only.identity.principal) if only else "",
        session_id=only.identity.session_id if only else "",
        code_digest=only.identity.code_digest if only else "",
        runs=tuple(sorted(contexts)),
        server_id=storable(server_id)[:_NAME_CHARS_MAX],
        tool_name=storable(tools.pop())[:_NAME_CHARS_MAX] if len(tools) == 1 else "",
        method=method,
        mode="" if not method.startswith("elicitation/") else "url" if params.get("mode") == "url" else "form",
        question_digest=_digest(params),
        verdict=decision.verdict if decision else "",
        rule_id=storable(decision.rule_id) if decision else "",
        answer=note.answer,
        answerer=storable(note.answerer),
        approver=storable(note.approver),
        why=note.why,
        duration_ms=duration_ms,
    )


def _digest(params: JsonObject) -> str:
    try:
        return digest_json(params)
    except (ValueError, TypeError, RecursionError):
        return ""
