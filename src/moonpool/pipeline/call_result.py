"""A result that came back: redacted, read, checked against its schema. Pure, so large ones are handled in a thread.

SECURITY: strings are redacted before they are read, because reading may cut them, and half a secret would not be found.
The schema is checked on what the server sent, so that a redaction marker is not reported as the server's mistake.

Neighbours: `normalisation` says where data lies, `redaction.redactor` takes secrets out, `pipeline` calls this between
call and record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moonpool.core.calls import CallError, CallErrorType, DataFrom
from moonpool.core.json import JsonObject, digest_json
from moonpool.pipeline.normalisation import read_result
from moonpool.pipeline.validation import depth_exceeds
from moonpool.redaction.redactor import Tally

if TYPE_CHECKING:
    from moonpool.core.manifest import ToolDefinition
    from moonpool.pipeline.validation import SchemaCheck
    from moonpool.redaction.redactor import Redactor

RESULT_DEPTH_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What the guest gets of a result. `raw` is redacted; `digest` is over it."""

    raw: JsonObject | None
    size_bytes: int
    digest: str = ""
    error: CallError | None = None
    data_from: DataFrom | None = None
    tally: Tally = field(default_factory=Tally)
    warnings: tuple[str, ...] = ()


def receive_result(
    tool: ToolDefinition, raw: JsonObject, encoded: bytes, *, check: SchemaCheck, redactor: Redactor
) -> CallResult:
    """Redact and normalise `raw`, whose JSON text is `encoded`."""
    brackets = encoded.count(b"[") + encoded.count(b"{")  # never fewer than levels
    if brackets > RESULT_DEPTH_MAX and depth_exceeds(raw, RESULT_DEPTH_MAX):
        problem = (
            f"server {tool.server_id!r} answered {tool.name!r} with data nested over {RESULT_DEPTH_MAX} levels deep"
        )
        error = CallError(type=CallErrorType.UPSTREAM_ERROR, message=problem)
        return CallResult(raw=None, size_bytes=len(encoded), error=error)
    tally = Tally()
    clean = redactor.json_object(raw, tally, encoded=encoded)
    reading = read_result(tool.server_id, tool.name, clean)
    problem = check.result_problem(raw["structuredContent"]) if reading.data_from == "structured" else ""
    return CallResult(
        raw=clean,
        size_bytes=len(encoded),
        digest=digest_json(clean),
        error=reading.error,
        data_from=reading.data_from,
        tally=tally,
        warnings=(problem,) if problem else (),
    )
