"""One line to one JSON-RPC message or a description of its error; and back. Pure.

The SDK's parser is not used: it takes `"id": null` for a notification, refuses batches, accepts `1.0` as an id and
answers nothing to a line that is not JSON (REQUIREMENTS A-001 to A-011, B-012).

SECURITY: a line is untrusted. Its size is limited before it gets here, its nesting before a decoder recurses into it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias, cast

from moonpool.core.json import finite_number
from moonpool_wire.jsonbounds import exceeded_bound
from moonpool_wire.limits import VALUES_MAX

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

DEPTH_MAX: Final = 128
CONTAINERS_MAX: Final = 200_000
METHOD_CHARS_MAX: Final = 200

RequestId: TypeAlias = int | str
Payload: TypeAlias = dict[str, Any]

# Valid in JSON, but a line end to some readers (Node's readline, str.splitlines); or not encodable.
_UNSAFE: Final = re.compile("[\x85\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Request:
    """A message that needs an answer."""

    id: RequestId
    method: str
    params: Payload | None


@dataclass(frozen=True, slots=True)
class Notification:
    """A message that is never answered."""

    method: str
    params: Payload | None


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to a request of ours."""

    payload: Payload


@dataclass(frozen=True, slots=True)
class Invalid:
    """Not a message. `id` where it could be read."""

    code: int
    problem: str
    id: RequestId | None = None


@dataclass(frozen=True, slots=True)
class Ignored:
    """A malformed notification or response, which gets no answer (A-010)."""

    problem: str


Message: TypeAlias = Request | Notification | Response | Invalid | Ignored


def parse_line(line: bytes) -> object:
    """The JSON value of `line`. Raises ValueError with a sentence."""
    bound = exceeded_bound(line, depth_max=DEPTH_MAX, containers_max=CONTAINERS_MAX, values_max=VALUES_MAX)
    if bound is not None:
        raise ValueError(f"the message has {bound}")
    try:
        return json.loads(line.decode(), parse_constant=_refuse_constant, parse_float=finite_number)
    except UnicodeDecodeError as error:
        raise ValueError(f"the message is not UTF-8 (byte {error.start})") from None
    except RecursionError:
        raise ValueError("the message is nested too deeply") from None


def read_message(value: object) -> Message:
    """Classify one decoded JSON value that is not a batch."""
    if not isinstance(value, dict):
        return Invalid(INVALID_REQUEST, "a message must be a JSON object")
    payload: Payload = value  # pyright: ignore[reportUnknownVariableType]  decoded JSON
    if "method" in payload:
        return _read_call(payload)
    if "result" in payload or "error" in payload:
        return _read_response(payload)
    return Invalid(INVALID_REQUEST, "the message has neither method nor result nor error", _id_of(payload))


def error_payload(problem: Invalid) -> Payload:
    return {"jsonrpc": "2.0", "id": problem.id, "error": {"code": problem.code, "message": problem.problem}}


def result_payload(request_id: RequestId, result: Payload) -> Payload:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def encode_line(payload: Payload | list[Payload]) -> bytes:
    """One line of UTF-8 with its line feed and no other character that any reader takes for a line end."""
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if not text.isascii():
        text = _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return text.encode() + b"\n"


def _read_call(payload: Payload) -> Message:
    is_request = "id" in payload
    request_id = _id_of(payload)
    problem, code = _problem_of(payload), INVALID_REQUEST
    if not problem and is_request and request_id is None:
        problem = "the id of a request must be a string or an integer"
    params: Any = payload.get("params")
    if not problem and params is not None and not isinstance(params, dict):
        problem, code = "params must be an object", INVALID_PARAMS
    if problem:
        return Invalid(code, problem, request_id) if is_request else Ignored(problem)
    method, params = payload["method"], cast("Payload | None", params)
    return Notification(method, params) if request_id is None else Request(request_id, method, params)


def _problem_of(payload: Payload) -> str:
    if payload.get("jsonrpc") != "2.0":
        return 'the member "jsonrpc" must be "2.0"'
    method = payload["method"]
    if not isinstance(method, str) or not method or len(method) > METHOD_CHARS_MAX:
        return f"the method must be a string of 1 to {METHOD_CHARS_MAX} characters"
    return ""


def _read_response(payload: Payload) -> Message:
    whole = payload.get("jsonrpc") == "2.0" and _id_of(payload) is not None
    if not whole or ("result" in payload) == ("error" in payload):
        return Ignored("a response needs an id and one of result and error")
    body = payload.get("result", payload.get("error"))
    if not isinstance(body, dict):
        return Ignored("result and error must be objects")
    return Response(payload)


def _id_of(payload: Payload) -> RequestId | None:
    given = payload.get("id")
    return given if isinstance(given, int | str) and not isinstance(given, bool) else None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"the message holds {name}, which is not JSON")
