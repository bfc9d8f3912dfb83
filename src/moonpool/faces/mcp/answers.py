"""What comes back from a tool, as a model reads it: lean, and the same in text as in `structuredContent` (H-043).

A model pays for every token of a result, so identity, digests and metrics of an execution do not stand in it; they
travel beside it in `_meta["moonpool/envelope"]`: everything of the envelope but its `result`, and the result's metrics.
What code printed is cut in the middle where it is long; the whole of it stays in the audit's artifacts. The line of a
traceback that repeats the error's message is left out; the frames above it say where.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.broker.phrases import clip

if TYPE_CHECKING:
    from moonpool.core.envelope import Envelope
    from moonpool.core.errors import MoonpoolError
    from moonpool.core.json import JsonObject, JsonValue

ENVELOPE_KEY: Final = "moonpool/envelope"
STDOUT_CHARS_MAX: Final = 20_000
STDERR_CHARS_MAX: Final = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of one tool call, before it becomes a message."""

    text: str
    structured: JsonObject | None = None
    is_error: bool = False
    meta: JsonObject | None = None


def text_answer(text: str) -> Answer:
    return Answer(text=text)


def problem_answer(error: MoonpoolError, *, structured: bool = False) -> Answer:
    """A request that cannot be done, as a tool error with its code; `structured` where there is an output schema."""
    if not structured:
        return Answer(text=f"{error} [{error.code}]", is_error=True)
    failure: JsonObject = {"type": error.code, "message": str(error), "retryable": error.retryable}
    return structured_answer({"ok": False, "error": failure})


def execution_answer(envelope: Envelope) -> Answer:
    """The outcome of an execution."""
    whole = envelope.to_json()
    result = whole.pop("result")
    assert isinstance(result, dict)
    whole["metrics"] = result.get("metrics")
    return structured_answer(_lean(result), meta={ENVELOPE_KEY: whole})


def structured_answer(value: JsonObject, *, meta: JsonObject | None = None) -> Answer:
    return Answer(
        text=json.dumps(value, ensure_ascii=False, separators=(",", ":")),
        structured=value,
        is_error=value["ok"] is not True,
        meta=meta,
    )


def _lean(result: JsonObject) -> JsonObject:
    ok = result["ok"] is True
    lean: JsonObject = {"ok": ok, "data": result["data"]} if ok else {"ok": ok, "error": result["error"]}
    stdout, stderr, exit_code = (result.get(name) for name in ("stdout", "stderr", "exit_code"))
    if isinstance(stdout, str) and stdout and not (ok and _says(stdout, result["data"])):
        lean["stdout"] = clip(stdout, STDOUT_CHARS_MAX)
    if isinstance(stderr, str) and stderr and (told := stderr if ok else _without_message(stderr, result["error"])):
        lean["stderr"] = clip(told, STDERR_CHARS_MAX)
    if isinstance(plan := result.get("plan"), dict):
        lean["plan"] = plan
    if isinstance(exit_code, int) and exit_code > 1:
        lean["exit_code"] = exit_code
    return lean


def _without_message(stderr: str, error: JsonValue) -> str:
    """`stderr` without the line in which the traceback says what `error` says, be it with more words behind."""
    assert isinstance(error, dict)
    message = str(error["message"])
    heads = re.finditer(rf"^(?:[\w<>]+\.)*{re.escape(str(error['type']))}(?: \[\w+\])?: ", stderr, re.MULTILINE)
    for head in reversed(list(heads)):
        rest = stderr[head.end() : head.end() + len(message) + 1]
        pairs = enumerate(zip(rest, message, strict=False))
        end = head.end() + next((at for at, (one, other) in pairs if one != other), min(len(rest), len(message)))
        if end > head.end() and (end == len(stderr) or stderr.startswith(("\n", " {\n"), end)):
            return stderr[: head.start()] + stderr[end:].removeprefix("\n")
    return stderr


def _says(stdout: str, data: JsonValue) -> bool:
    """True when all that was printed is the result itself, so that it need not be said twice."""
    try:
        return data is not None and json.loads(stdout) == data
    except (ValueError, RecursionError):
        return False
