"""Tool results as a model reads them: short, and the same in text as in `structuredContent` (H-043).

`{ok, data}` or `{ok, error}` of an execution that has ended; `{state: "running", execution}` of one that goes on, with
its output so far: `ok` is not known yet.

A model pays for every token of a result, so identity, digests and metrics of an execution are not part of it;
`_meta["moonpool/envelope"]` has them: the envelope without its `result`, and the result's metrics. Long output of code
is cut in the middle; the artifact has all of it. The line of a traceback that repeats the error's message is left out.
Failed tool calls are listed even if the code ignored them. Pictures that code displayed are separate content, never
text: base64 of a picture is removed from all text (`_without_base64`).
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import told
from moonpool.core.phrases import clip
from moonpool.server.mcp.resources import uri_of

if TYPE_CHECKING:
    from moonpool.core.created_files import MadeFiles, Picture
    from moonpool.core.envelope import Envelope
    from moonpool.core.errors import MoonpoolError
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.server.mcp.connection_calls import Running

_log = logging.getLogger(__name__)
ENVELOPE_KEY: Final = "moonpool/envelope"
STDOUT_CHARS_MAX: Final = 20_000
STDERR_CHARS_MAX: Final = 4_000
_STARTS: Final = ("iVBORw0KGg", "/9j/", "R0lGOD", "UklGR")
"""The first characters of base64 of a PNG, JPEG, GIF or WebP."""

_SIGN: Final = r"[A-Za-z0-9+/\\]"  # a base64 character, or part of an escaped line end
_REST: Final = rf"{_SIGN}*(?:[\r\n]+{_SIGN}{{60,}})*(?:[\r\n]+{_SIGN}*(?:=|SuQmCC|/Z))?={{0,2}}"
"""To the end of the line, and further lines of the length that encoders produce. A shorter line belongs to the picture
only if it ends like base64 of a PNG or JPEG; other lines are later output of the code.
"""

_CUT: Final = rf"[\r\n]*\[\.\.\. of [^\n\[]*\.\.\.\]\n(?={_SIGN}{{60,}}|{_SIGN}*[\r\n]+{_SIGN}{{60,}})"
"""The mark where `engine.output` cut out the middle."""

_PICTURE_AS_BASE64: Final = re.compile(
    rf"(?:data:image/[a-z+.-]+;base64,)?(?:{'|'.join(_STARTS)}){_REST}(?:{_CUT}{_REST})?"
)
"""SECURITY: untrusted code chooses the text and the event loop waits, so the pattern must not backtrack over a part
twice.
"""
_PICTURE_CHARS_MIN: Final = 72
_HEADS_MAX: Final = 10
_OF_FILES: Final = ("files", "more_files", "files_note")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of one tool call, before it is encoded as a message."""

    text: str
    structured: JsonObject | None = None
    is_error: bool = False
    meta: JsonObject | None = None
    pictures: tuple[Picture, ...] = ()


def text_answer(text: str) -> Answer:
    return Answer(text=text)


def words(error: MoonpoolError, *, hides_host: bool) -> str:
    """What a client is told of an error. The log has what is hidden from it."""
    shown = told(error, hides_host=hides_host)
    if shown != str(error):
        _log.warning("a request failed: %s", error)
    return shown


def problem_answer(error: MoonpoolError, *, structured: bool = False, hides_host: bool = False) -> Answer:
    """A refused request as a tool error with its code; `structured` if the tool has an output schema."""
    told = words(error, hides_host=hides_host)
    if not structured:
        return Answer(text=f"{told} [{error.code}]", is_error=True)
    return structured_answer(_refusal(error, told))


def lost_answer(execution_id: str, error: MoonpoolError) -> Answer:
    """An execution of a process that has ended."""
    return structured_answer({**_refusal(error, str(error)), "state": "lost", "execution": execution_id})


def _refusal(error: MoonpoolError, told: str) -> JsonObject:
    failure: JsonObject = {"type": error.code, "message": told, "retryable": error.retryable}
    return {"ok": False, "error": failure}


def execution_answer(envelope: Envelope, session: str | None = None, *, hides_host: bool = False) -> Answer:
    """The outcome of an execution; `session` is the name of its session, if any."""
    answer = _ended_answer(
        envelope.to_json(), _files(envelope.made, session or (envelope.run_id if hides_host else None))
    )
    return replace(answer, pictures=envelope.pictures)


def kept_answer(envelope: JsonObject, *, hides_host: bool = False) -> Answer:
    """The outcome of an execution as it was kept on disk, without its pictures."""
    result = envelope.get("result")
    assert isinstance(result, dict)
    told = {name: result[name] for name in _OF_FILES if name in result}
    if hides_host and "files" in told:
        told["files"] = [_without_host(str(envelope["run_id"]), file) for file in _list(told["files"])]
    return _ended_answer(envelope, told)


def _without_host(run_id: str, file: JsonValue) -> JsonValue:
    """SECURITY: without its path, if that is of this machine and not of a session's sandbox."""
    assert isinstance(file, dict)
    return file if file.get("path") == f"/workspace/{file['name']}" else _with_uri(run_id, file)


def _with_uri(owner: str, file: JsonValue) -> JsonValue:
    assert isinstance(file, dict)
    shown = {name: value for name, value in file.items() if name != "path"}
    return {**shown, "uri": uri_of(owner, str(file["name"]))} if file.get("path") else {**shown, "path": None}


def _ended_answer(envelope: JsonObject, files: JsonObject) -> Answer:
    whole = dict(envelope)
    result = whole.pop("result")
    assert isinstance(result, dict)
    whole["metrics"] = result.get("metrics")
    return structured_answer({**_lean(_without_base64(result)), **files}, meta={ENVELOPE_KEY: whole})


def running_answer(running: Running, waits: str) -> Answer:
    """An execution that goes on; `waits` is the tool that waits for it. Or one that was cancelled."""
    value: JsonObject = {"state": "running", "execution": running.execution_id}
    if cancelled := running.cancelled:
        value = {**_refusal(cancelled, str(cancelled)), "state": "cancelled", "execution": running.execution_id}
    if running.missing:
        value["missing_bytes"] = running.missing
    value |= {"output": running.output, "next_offset": running.next_offset}
    if unread := running.total - running.next_offset:
        value["unread_bytes"] = unread
    if not cancelled:
        older = "; what is missing is in its outcome, or in the artifact that this names" if running.missing else ""
        value["note"] = f"still running: {waits} with this id gives its outcome{older}"
    return structured_answer(_without_base64(value))


def structured_answer(value: JsonObject, *, meta: JsonObject | None = None) -> Answer:
    return Answer(
        text=json.dumps(value, ensure_ascii=False, separators=(",", ":")),
        structured=value,
        is_error=value.get("ok", True) is not True,
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
    """The failed calls, without messages that the execution's own error repeats."""
    said = str(error.get("message")) if isinstance(error, dict) else ""
    calls = [one for one in _list(failed["first"]) if isinstance(one, dict)]
    first: list[JsonValue] = [
        {name: value for name, value in one.items() if name != "message" or str(value) not in said} for one in calls
    ]
    return {**failed, "first": first}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _without_message(stderr: str, error: JsonValue) -> str:
    """`stderr` without the traceback line that repeats `error`, even if more text follows on that line."""
    assert isinstance(error, dict)
    message = str(error["message"])
    heads = re.finditer(rf"^(?:[\w<>]+\.)*{re.escape(str(error['type']))}(?: \[\w+\])?: ", stderr, re.MULTILINE)
    # only the last ones: code could make comparing all of them take minutes
    for head in list(heads)[: -_HEADS_MAX - 1 : -1]:
        rest = stderr[head.end() : head.end() + len(message) + 1]
        pairs = enumerate(zip(rest, message, strict=False))
        end = head.end() + next((at for at, (one, other) in pairs if one != other), min(len(rest), len(message)))
        if end > head.end() and (end == len(stderr) or stderr.startswith(("\n", " {\n"), end)):
            return stderr[: head.start()] + stderr[end:].removeprefix("\n")
    return stderr


def _says(stdout: str, data: JsonValue) -> bool:
    """Whether the output is exactly the result, so that it need not be repeated."""
    try:
        return data is not None and json.loads(stdout) == data
    except (ValueError, RecursionError):
        return False


def _files(made: MadeFiles, owner: str | None) -> JsonObject:
    """Each file with its one location: `uri` at this session or run, or `path` on this machine."""
    told = made.to_json()
    if owner is not None and "files" in told:
        told["files"] = [_with_uri(owner, file) for file in _list(told["files"])]
    return told


def _without_base64(value: JsonObject) -> JsonObject:
    """`value` with a note in place of every picture that a string holds as base64."""

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
