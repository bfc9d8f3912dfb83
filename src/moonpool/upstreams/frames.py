"""JSON-RPC messages as lines: encoding what we send, decoding what a server may have sent. No I/O.

Arguments leave exactly as given: integers of any size, lone surrogates as escapes, `null`s. Answers are parsed
strictly; one that is not JSON (NaN, half a surrogate pair, a number out of range) or that is too large, in bytes or in
what would have to be made of them, fails the request it answers at once instead of letting it run into its timeout.
What is no message at all is garbage, for the caller to count.

The SDK's models appear only as the envelopes that its dispatcher wants; results pass through them unseen.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

import msgspec
from mcp.types import (
    INTERNAL_ERROR,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from moonpool.net.message_limits import HEAD_BYTES, RESULT_BYTES_MAX, TAIL_BYTES, exceeded_json, too_large

if TYPE_CHECKING:
    from mcp.types import JSONRPCMessage, RequestId

_ID = rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,64}")\s*'
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_ID_AT_HEAD = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _ID + rb"[,}]")
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a whole pair
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"  # half of one
    rb"|\\."
)
_ID_AT_TAIL = re.compile(_ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*$")


class LocalFault(Enum):
    """Carried as `data` of an error that we made ourselves; a peer cannot forge a Python object."""

    UNUSABLE = "unusable"
    TOO_LARGE = "too large"


def encode_frame(message: JSONRPCMessage) -> bytes:
    """One line. Raises ValueError for what no JSON text can carry (NaN, infinities)."""
    if isinstance(message, JSONRPCRequest | JSONRPCNotification):
        frame: dict[str, Any] = {"jsonrpc": "2.0", "method": message.method}
        if isinstance(message, JSONRPCRequest):
            frame["id"] = message.id
        if message.params is not None:
            frame["params"] = message.params
    else:
        frame = message.model_dump(by_alias=True, mode="json", exclude_unset=True)
    try:
        return json.dumps(frame, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate: only an escape can carry it
        return json.dumps(frame, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def decode_frame(line: bytes) -> list[JSONRPCMessage]:
    """The messages of one line: one, several (a batch of revision 2025-03-26), or none (garbage)."""
    if (bound := exceeded_json(line)) is not None:
        answer = oversized_answer(line[:HEAD_BYTES], line[-TAIL_BYTES:], bound)
        return [] if answer is None else [answer]
    try:
        decoded = _decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        fault = _unusable(line, str(exc))
        return [] if fault is None else [fault]
    if isinstance(decoded, list):
        found = [_message(item) for item in cast("list[object]", decoded)[:1000]]
        return [message for message in found if message is not None]
    message = _message(decoded)
    return [] if message is None else [message]


def _decode(line: bytes) -> object:
    """Strict JSON; but half a surrogate pair in one tool's description must not lose the whole list (H-040)."""
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        if b'"inputSchema"' not in line:
            raise
        return msgspec.json.decode(_ESCAPES.sub(_mended, line))


def _mended(escape: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if escape[1] else escape[0]


def oversized_answer(head: bytes, tail: bytes, bound: str = too_large(RESULT_BYTES_MAX)) -> JSONRPCError | None:
    """An error for the request that a discarded line answered, if its beginning or end tells which."""
    found = _answered_id(head, tail)
    return None if found is None else _fault(found, LocalFault.TOO_LARGE, bound)


def _message(decoded: object) -> JSONRPCMessage | None:
    if not isinstance(decoded, dict):
        return None
    frame = cast("dict[str, Any]", decoded)
    request_id = frame.get("id")
    if "method" not in frame and isinstance(request_id, int | str) and not isinstance(request_id, bool):
        if isinstance(frame.get("result"), dict):
            return JSONRPCResponse.model_construct(jsonrpc="2.0", id=request_id, result=frame["result"])
        if "error" in frame:
            return JSONRPCError.model_construct(jsonrpc="2.0", id=request_id, error=_error(frame["error"]))
        return _fault(request_id, LocalFault.UNUSABLE, "neither a result object nor an error")
    try:
        return jsonrpc_message_adapter.validate_python(frame, by_name=False)
    except ValidationError:
        return None


def _error(given: object) -> ErrorData:
    try:
        return ErrorData.model_validate(given)
    except ValidationError:
        return ErrorData(code=INTERNAL_ERROR, message=str(given)[:1000])


def _unusable(line: bytes, reason: str) -> JSONRPCError | None:
    """An error for the request that a line of broken JSON answers, where its id can still be read."""
    stripped = line.strip()
    if not (stripped.startswith(b"{") and stripped.endswith(b"}") and b'"jsonrpc"' in stripped):
        return None
    found = _answered_id(stripped[:HEAD_BYTES], stripped[-TAIL_BYTES:])
    if found is None or b'"method"' in stripped[:HEAD_BYTES]:
        return None
    return _fault(found, LocalFault.UNUSABLE, reason)


def _answered_id(head: bytes, tail: bytes) -> RequestId | None:
    """Servers put the id first or last; anywhere else it could be a part of the result."""
    found = _ID_AT_HEAD.match(head) or _ID_AT_TAIL.search(tail)
    if found is None:
        return None
    text = found[1]
    return text[1:-1].decode(errors="replace") if text.startswith(b'"') else int(text)


def _fault(request_id: RequestId, fault: LocalFault, reason: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=PARSE_ERROR, message=reason, data=fault))
