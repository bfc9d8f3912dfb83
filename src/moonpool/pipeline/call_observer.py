"""Who may observe calls that worked, to learn from them. Not a stage: it changes nothing and refuses nothing.

SECURITY: an observer gets the arguments as they were sent and the result after redaction, and is told when arguments
may hold data that the session read before (`private`). What it keeps, and for whom, is its own duty
(`moonpool.features.learned_types.service`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from moonpool.core.calls import DataFrom
    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import ToolDefinition
    from moonpool.pipeline.call_state import CallState

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


def tell(observer: CallObserver, call: CallState) -> None:
    """Tell `observer` of a call that worked; whatever goes wrong there costs no call."""
    result = call.result
    if call.rehearsed or result is None or result.raw is None or result.data_from is None:
        return  # SECURITY: what a rehearsal answers, no server said
    try:
        seen = ObservedCall(
            principal=call.context.identity.principal,
            tool=call.resolved,
            arguments=call.spec.arguments,
            arguments_bytes=len(call.arguments_json),
            raw=result.raw,
            result_bytes=result.size_bytes,
            data_from=result.data_from,
            private=bool(call.context.memory.taken_in),
        )
        observer.saw(seen)
    except Exception as error:  # noqa: BLE001  a bug of ours; the call itself went well
        _log.error("a call was not learned from: %s", type(error).__name__)
