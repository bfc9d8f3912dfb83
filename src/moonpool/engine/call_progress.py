"""The calls of an execution for whoever waits for it: their start, their progress as servers report it, their end.

The first report is passed on at once, then the newest of each tool, `INTERVAL_S` apart: a server may send thousands a
second, and redacting each would slow its neighbours.

SECURITY: a report's message is the server's text. It is one bounded line without the server's own secrets when it
comes (`upstreams.server_logging`), and redacted here. Code in the sandbox gets none of it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moonpool.core.calls import CallEnded, CallErrorType, CallProgress, CallStarted
from moonpool.core.phrases import clip, printable, storable
from moonpool.redaction.redactor import Tally

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.core.calls import ToolCallOutcome, ToolCallSpec
    from moonpool.redaction.redactor import Redactor

_log = logging.getLogger(__name__)
INTERVAL_S: Final = 0.1
_TOOLS_MAX: Final = 64
_NAME_CHARS_MAX: Final = 300
_MESSAGE_CHARS_MAX: Final = 1000


class ProgressOfCalls:
    """Of one execution; used on one event loop."""

    def __init__(self, listener: Callable[[CallProgress], None], redact: Callable[[str], str]) -> None:
        self._listener, self._redact = listener, redact
        self._newest: dict[str, CallProgress] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    def hear(self, told: CallProgress) -> None:
        """Take a report. Nothing is taken once it is `over`."""
        if self._over or (told.tool not in self._newest and len(self._newest) >= _TOOLS_MAX):
            return
        self._newest[told.tool] = told
        if self._timer is None:
            self._pass_on()

    def over(self) -> None:
        """The execution is over: pass on what is left. Idempotent."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._tell()

    def _pass_on(self) -> None:
        self._timer = None
        if self._newest:
            self._tell()
            self._timer = asyncio.get_running_loop().call_later(INTERVAL_S, self._pass_on)

    def _tell(self) -> None:
        newest, self._newest = self._newest, {}
        for told in newest.values():
            try:
                self._listener(replace(told, message=self._redact(told.message)))
            except Exception:  # noqa: BLE001
                _log.exception("the receiver of the progress of calls failed")


async def told_call(
    spec: ToolCallSpec,
    call: Awaitable[ToolCallOutcome],
    listener: Callable[[CallStarted | CallEnded], None],
    redactor: Redactor,
) -> ToolCallOutcome:
    """Await `call`, and tell `listener` of its start and of its end, a cancellation too."""

    def shown(text: str, length_max: int) -> str:
        return clip(printable(redactor.text(storable(text), Tally())), length_max)

    def tell(event: CallStarted | CallEnded) -> None:
        try:
            listener(event)
        except Exception:  # noqa: BLE001
            _log.exception("the receiver of the calls failed")

    name = shown(f"{spec.server_id[:_NAME_CHARS_MAX]}.{spec.tool[:_NAME_CHARS_MAX]}", _NAME_CHARS_MAX)
    tell(CallStarted(call_id=spec.call_id, tool=name))
    ended = CallEnded(call_id=spec.call_id, tool=name, error_type=CallErrorType.EXECUTION_ENDED)
    try:
        outcome = await call
        error = outcome.error
        ended = replace(
            ended,
            error_type=None if error is None else error.type,
            message="" if error is None else shown(error.message, _MESSAGE_CHARS_MAX),
            approval=outcome.approval,
            duration_ms=outcome.duration_ms,
        )
    finally:
        tell(ended)
    return outcome
