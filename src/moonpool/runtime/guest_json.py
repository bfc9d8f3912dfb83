"""JSON between the host and code in a sandbox: what code hands over is read here, what a tool call came to is written.

SECURITY: what comes from a guest is bounded before it is decoded.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from moonpool_wire.jsonbounds import exceeded_bound
from moonpool_wire.limits import VALUES_MAX

if TYPE_CHECKING:
    from moonpool.core.calls import ToolCallOutcome
    from moonpool.core.json import JsonObject


def reply_of(outcome: ToolCallOutcome) -> JsonObject:
    """The reply object that the guest gets (`docs/reference/wire.md`)."""
    if outcome.error is not None:
        reply: JsonObject = {"ok": False, "error": outcome.error.to_json()}
    else:
        reply = {"ok": True, "data_from": outcome.data_from}
    if outcome.raw is not None:
        reply["raw"] = outcome.raw
    return reply


def parse_json(text: bytes) -> object:
    """Decode JSON from a guest. Raises ValueError; NaN, infinities, too deep and too many values are refused."""
    if (bound := exceeded_bound(text, values_max=VALUES_MAX)) is not None:
        raise ValueError(f"it has {bound}")
    return json.loads(text, parse_constant=_refuse_constant)


def parse_arguments(body: bytes) -> JsonObject | str:
    """The arguments object, or a sentence that says why there is none."""
    try:
        arguments = parse_json(body)
    except (ValueError, RecursionError) as error:
        return f"the arguments are not usable JSON: {error}"
    if not isinstance(arguments, dict):
        return f"the arguments must be a JSON object, not {type(arguments).__name__}"
    return arguments  # pyright: ignore[reportUnknownVariableType]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
