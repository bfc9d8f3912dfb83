"""What comes back from a tool, as a model reads it: lean, and the same in text as in `structuredContent` (H-043).

A model pays for every token of a result, so identity, digests and metrics of an execution do not stand in it; they
travel beside it in `_meta["moonpool/envelope"]`: everything of the envelope but its `result`, and the result's metrics.
What code printed is cut in the middle where it is long; the whole of it stays in the audit's artifacts. The line of a
traceback that repeats the error's message is left out; the frames above it say where. Tool calls that failed are named
also where the code looked away. Pictures that code showed are beside the text, never in it: a picture as base64 is left
out of every text (`_without_base64`).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from moonpool.core.phrases import clip
from moonpool.server.mcp.resources import uri_of

if TYPE_CHECKING:
    from moonpool.core.created_files import MadeFiles, Picture
    from moonpool.core.envelope import Envelope
    from moonpool.core.errors import MoonpoolError
    from moonpool.core.json import JsonObject, JsonValue

ENVELOPE_KEY: Final = "moonpool/envelope"
STDOUT_CHARS_MAX: Final = 20_000
STDERR_CHARS_MAX: Final = 4_000
_STARTS: Final = ("iVBORw0KGg", "/9j/", "R0lGOD", "UklGR")
"""What base64 of a PNG, JPEG, GIF or WebP begins with."""

_SIGN: Final = r"[A-Za-z0-9+/\\]"  # of base64, or of a line's end that is escaped
_REST: Final = rf"{_SIGN}*(?:[\r\n]+{_SIGN}{{60,}})*(?:[\r\n]+{_SIGN}*(?:=|SuQmCC|/Z))?={{0,2}}"
"""To the end of the line, and further lines as long as encoders make them. A shorter one belongs to it only if it ends
as base64 of a PNG or JPEG does: what code prints next is no part of the picture."""

_CUT: Final = rf"[\r\n]*\[\.\.\. of [^\n\[]*\.\.\.\]\n(?={_SIGN}{{60,}}|{_SIGN}*[\r\n]+{_SIGN}{{60,}})"
"""Where `engine.output` left out the middle."""

_PICTURE_AS_BASE64: Final = re.compile(
    rf"(?:data:image/[a-z+.-]+;base64,)?(?:{'|'.join(_STARTS)}){_REST}(?:{_CUT}{_REST})?"
)
"""SECURITY: code chooses the text, and an event loop waits: no part may be scanned again from another start."""
_PICTURE_CHARS_MIN: Final = 72
_HEADS_MAX: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of one tool call, before it becomes a message."""

    text: str
    structured: JsonObject | None = None
    is_error: bool = False
    meta: JsonObject | None = None
    pictures: tuple[Picture, ...] = ()


def text_answer(text: str) -> Answer:
    return Answer(text=text)


def problem_answer(error: MoonpoolError, *, structured: bool = False) -> Answer:
    """A request that cannot be done, as a tool error with its code; `structured` where there is an output schema."""
    if not structured:
        return Answer(text=f"{error} [{error.code}]", is_error=True)
    failure: JsonObject = {"type": error.code, "message": str(error), "retryable": error.retryable}
    return structured_answer({"ok": False, "error": failure})


def execution_answer(envelope: Envelope, session: str | None = None) -> Answer:
    """The outcome of an execution, in the session of that name if in one."""
    whole = envelope.to_json()
    result = whole.pop("result")
    assert isinstance(result, dict)
    whole["metrics"] = result.get("metrics")
    lean = {**_lean(_without_base64(result)), **_files(envelope.made, session)}
    answer = structured_answer(lean, meta={ENVELOPE_KEY: whole})
    return replace(answer, pictures=envelope.pictures)


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
    if note := result.get("note"):
        lean["note"] = note
    if isinstance(failed := result.get("failed_calls"), dict):
        lean["failed_calls"] = failed if ok else _not_said_twice(failed, lean["error"])
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


def _not_said_twice(failed: JsonObject, error: JsonValue) -> JsonObject:
    """The failed calls; what the execution's own error says already is left out of them."""
    said = str(error.get("message")) if isinstance(error, dict) else ""
    calls = [one for one in _list(failed["first"]) if isinstance(one, dict)]
    first: list[JsonValue] = [
        {name: value for name, value in one.items() if name != "message" or str(value) not in said} for one in calls
    ]
    return {**failed, "first": first}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _without_message(stderr: str, error: JsonValue) -> str:
    """`stderr` without the line in which the traceback says what `error` says, be it with more words behind."""
    assert isinstance(error, dict)
    message = str(error["message"])
    heads = re.finditer(rf"^(?:[\w<>]+\.)*{re.escape(str(error['type']))}(?: \[\w+\])?: ", stderr, re.MULTILINE)
    for head in list(heads)[: -_HEADS_MAX - 1 : -1]:  # the last: comparing each would take code's choice of minutes
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


def _files(made: MadeFiles, session: str | None) -> JsonObject:
    """Each file with the one place where it can be had: `path` on this machine, or `uri` in the session."""
    told = made.to_json()
    if made.files and session is not None:
        told["files"] = [
            {"name": file.name, "mime": file.mime, "bytes": file.size, "uri": uri_of(session, file.name)}
            for file in made.files
        ]
    return told


def _without_base64(value: JsonObject) -> JsonObject:
    """`value` with a remark in place of every picture that stands in a text as base64."""

    def lean(part: JsonValue) -> JsonValue:
        if isinstance(part, str):
            return _PICTURE_AS_BASE64.sub(_remark, part) if any(start in part for start in _STARTS) else part
        if isinstance(part, list):
            return [lean(one) for one in part]
        if isinstance(part, dict):
            return {key: lean(one) for key, one in part.items()}
        return part

    return {key: lean(part) for key, part in value.items()}


def _remark(found: re.Match[str]) -> str:
    if len(found[0]) < _PICTURE_CHARS_MIN:
        return found[0]
    return f"[a picture as base64, {len(found[0]):,} characters: show it with display(...), or write it to a file]"
