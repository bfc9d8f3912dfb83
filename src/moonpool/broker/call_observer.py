"""Who may observe calls that worked, to learn from them. Not a stage: it changes nothing and refuses nothing.

SECURITY: an observer gets the arguments as they were sent and the result after redaction, and is told when arguments
may hold data that the session read before (`private`). What it keeps, and for whom, is its own duty
(`moonpool.runtime.lessons`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from moonpool.broker.call_state import CallState
    from moonpool.core.calls import DataFrom
    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import ToolDefinition

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCall:
    """One call that worked."""

    principal: str
    tool: ToolDefinition
    arguments: JsonObject
    arguments_bytes: int
    raw: JsonObject
    result_bytes: int
    data_from: DataFrom
    private: bool


class CallObserver(Protocol):
    """Hears of calls that worked, after their record. Must return at once."""

    def saw(self, call: ObservedCall) -> None: ...


def tell(observer: CallObserver, passage: CallState) -> None:
    """Tell `observer` of a call that worked; whatever goes wrong there costs no call."""
    arrival = passage.arrival
    if passage.rehearsed or arrival is None or arrival.raw is None or arrival.data_from is None:
        return  # SECURITY: what a rehearsal answers, no server said
    try:
        seen = ObservedCall(
            principal=passage.session.principal,
            tool=passage.resolved,
            arguments=passage.spec.arguments,
            arguments_bytes=len(passage.arguments_json),
            raw=arrival.raw,
            result_bytes=arrival.size_bytes,
            data_from=arrival.data_from,
            private=bool(passage.session.memory.taken_in),
        )
        observer.saw(seen)
    except Exception as error:  # noqa: BLE001  a bug of ours; the call itself went well
        _log.error("a call was not learned from: %s", type(error).__name__)
