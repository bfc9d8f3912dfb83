"""JSON between the host and code in a sandbox: reads what code hands over, writes the outcome of a tool call.

SECURITY: what comes from a guest is bounded before it is decoded. A result holds only what any JSON can carry, because
it is digested, recorded and printed without another check. Arguments of calls are read as they came: the call pipeline
refuses what JSON cannot carry, and records the refusal.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from moonpool.core.json import finite_number
from moonpool.pipeline.normalisation import result_data
from moonpool_wire.jsonbounds import exceeded_bound
from moonpool_wire.limits import VALUES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.core.calls import ToolCallOutcome
    from moonpool.core.json import JsonObject, JsonValue

_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")


def reply_of(outcome: ToolCallOutcome) -> JsonObject:
    """The reply object that the guest gets (`docs/reference/wire.md`)."""
    if outcome.error is not None:
        reply: JsonObject = {"ok": False, "error": outcome.error.to_json()}
    else:
        reply = {"ok": True, "data_from": outcome.data_from}
        if outcome.data_from == "literal_text" and outcome.raw is not None:
            reply["data"] = result_data(outcome.raw, outcome.data_from)
    if outcome.raw is not None:
        reply["raw"] = outcome.raw
    return reply


def parse_json(text: bytes, *, parse_float: Callable[[str], float] | None = None) -> object:
    """Decode JSON from a guest. Raises ValueError; NaN, infinities, too deep and too many values are refused."""
    if (bound := exceeded_bound(text, values_max=VALUES_MAX)) is not None:
        raise ValueError(f"it has {bound}")
    # SECURITY: decoded here: `json` would guess UTF-16, in which the bounds above count nothing, and take half pairs.
    return json.loads(text.decode(), parse_constant=_refuse_constant, parse_float=parse_float)


def parse_result(text: bytes) -> JsonValue:
    """Decode what code hands over. Raises ValueError, also for half a surrogate pair and a number out of range."""
    value = parse_json(text, parse_float=finite_number)
    if _HALF_PAIR.search(text):  # perhaps a whole pair
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("a string in it holds half a surrogate pair, which is not a character") from None
    return value  # pyright: ignore[reportReturnType]  strict JSON


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
