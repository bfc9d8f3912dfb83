"""Observers of successful calls, which learn from them. Not a stage: an observer changes and refuses nothing.

SECURITY: an observer gets the arguments as they were sent and the result after redaction, and is told when arguments
may hold data that the session read before (`private`). What it keeps, and for which principal, is up to it
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
    """One successful call."""

    principal: str
    tool: ToolDefinition
    arguments: JsonObject
    arguments_bytes: int
    raw: JsonObject
    result_bytes: int
    data_from: DataFrom
    private: bool


class CallObserver(Protocol):
    """Is told of successful calls after they are recorded. Must return at once."""

    def saw(self, call: ObservedCall) -> None: ...


def tell(observer: CallObserver, call: CallState) -> None:
    """Tell `observer` of a successful call; an exception there is logged and fails no call."""
    result = call.result
    if call.rehearsed or result is None or result.raw is None or result.data_from is None:
        return  # SECURITY: a dry run's answer does not come from a server
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
