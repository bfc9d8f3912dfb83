"""`moonpool call`: one call through PID 1's socket (`moonpool_guest.calls_socket`, which says what travels on it)."""

from __future__ import annotations

import _socket
import json
import struct
import sys
from typing import TYPE_CHECKING, Any

from . import index
from .outcomes import FailedError, ImpossibleError, UsageError

if TYPE_CHECKING:
    from moonpool_guest.path.client.errors import ToolCallError
    from moonpool_guest.path.client.results import ToolCallResult, outcome_of
else:
    from client.errors import ToolCallError
    from client.results import ToolCallResult, outcome_of

_ADDRESS = "\0moonpool"
_CHUNK_BYTES = 1 << 20
_ARGUMENT_BYTES_MAX = 16 * 1024 * 1024
_NOT_HERE = (
    "tools can be called while Bash or Node code runs, and none does; "
    "Python code imports `servers.<module>` or `client.mcp_client` instead"
)
_CUT_OFF = "the call was given up: the execution is over, or too many calls wait at once"


def call(words: list[str]) -> str:
    """Do what `moonpool call` with these words says and return what to print."""
    raw = "--raw" in words[:1] or "--raw" in words[-1:]
    rest = [word for word in words if word != "--raw"] if raw else words
    if not 1 <= len(rest) <= 2:
        raise UsageError("call takes SERVER.TOOL and at most one ARGUMENTS, which is JSON in quotes, @FILE or -")
    name, arguments = rest[0], _arguments(rest[1] if len(rest) == 2 else "{}")
    as_written = index.split(name)
    # Looked up first: asked under another of its names, the host would record a call of an unknown tool.
    server, tool = index.find(name) or as_written
    reply = exchange({"server": server, "tool": tool}, arguments, _NOT_HERE)
    outcome = outcome_of(ToolCallResult(reply, f"{server}.{tool}"))
    if not outcome.ok:
        raise FailedError(_json(outcome.error))
    try:
        return _json(outcome.raw if raw else outcome.data) + "\n"
    except (ToolCallError, ValueError) as error:
        raise FailedError(_json({"type": "UpstreamError", "message": str(error), "retryable": False})) from None


def _arguments(word: str) -> bytes:
    """The arguments as they go over the wire. Whether they fit the tool is for the broker to say."""
    try:
        if word == "-":
            text = sys.stdin.buffer.read(_ARGUMENT_BYTES_MAX + 1)
        elif word.startswith("@"):
            with open(word[1:], "rb") as file:
                text = file.read(_ARGUMENT_BYTES_MAX + 1)
        else:
            text = word.encode("utf-8", "surrogateescape")
    except OSError as error:
        raise UsageError(f"{word[1:]}: {error.strerror}") from None
    if len(text) > _ARGUMENT_BYTES_MAX:
        raise UsageError(f"the arguments are larger than {_ARGUMENT_BYTES_MAX:,} bytes; pass less at a time")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the arguments are not JSON: {error}; put them in single quotes, '{{\"a\": 1}}'") from None
    if not isinstance(value, dict):
        raise UsageError("the arguments must be a JSON object, such as '{\"a\": 1}'")
    return text


def exchange(asked: dict[str, Any], body: bytes, not_here: str) -> dict[str, Any]:
    """PID 1's reply to one connection. `not_here` is said where it does not listen."""
    head = json.dumps(asked).encode()
    try:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        connection.connect(_ADDRESS)
    except OSError:
        raise ImpossibleError(not_here) from None
    try:
        connection.sendall(struct.pack(">II", len(head), len(body)) + head + body)
    except OSError:
        pass  # refused before all was sent; the reply says why
    try:
        (size,) = struct.unpack(">I", _receive(connection, 4))
        reply = json.loads(_receive(connection, size))
    except (OSError, EOFError, ValueError):
        raise ImpossibleError(_CUT_OFF) from None
    connection.close()
    return reply


def _receive(connection: _socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(min(_CHUNK_BYTES, size - len(data)))
        if not part:
            raise EOFError("the connection was closed")
        data += part
    return bytes(data)


def _json(value: object) -> str:
    """One line. A lone surrogate, which UTF-8 cannot hold, is escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if text.isascii() or _encodes(text) else json.dumps(value, separators=(",", ":"))


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
