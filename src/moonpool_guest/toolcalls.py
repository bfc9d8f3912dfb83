"""The way from code in the sandbox to the broker: one request on the channel, one reply object back.

Replies are plain dicts as the broker sent them: `{"ok": true, "data_from": ..., "raw": {...}}` or `{"ok": false,
"error": {"type", "message", "retryable"}}`, the second with the `line` of Python code that made the call. A channel
that cannot be used (a forked child, an execution that is over) gives the second form too, so callers have one thing to
handle. `client.mcp_client` makes results of them.
"""

import itertools
import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from moonpool_guest.channel import ChannelGoneError, GuestChannel
from moonpool_guest.waiters import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import TypeAlias

    _Sent: TypeAlias = "tuple[GuestChannel, Waiter, int]"

_state: "dict[str, GuestChannel]" = {}
_code_names: "list[str]" = []  # of the execution under way
_ids = itertools.count(1)
_TOO_LARGE = "the arguments are larger than the broker accepts; pass less at a time"


def install(channel: "GuestChannel | None", code_name: str = "") -> None:
    """Tell this module the kernel's channel and what its code is called, or that no execution is running (None)."""
    _code_names[:] = [code_name] if code_name else []
    if channel is None:
        _state.pop("channel", None)
    else:
        _state["channel"] = channel


def invoke_sync(server_id: str, name: str, arguments: "dict[str, Any]") -> "dict[str, Any]":
    """Call a tool and block this thread until the reply is there. Works inside a running event loop too."""
    line = _line_of_code()
    try:
        channel, waiter, request_id = _send(server_id, name, _encoded(server_id, name, arguments), line)
        try:
            channel.wait(waiter)
        except BaseException:
            channel.forget(request_id)
            raise
        reply = _reply(waiter)
    except _RefusedError as error:
        reply = error.reply
    except ChannelGoneError as error:
        reply = _failure("ExecutionEnded", str(error))
    return _with_line(reply, line)


async def invoke(server_id: str, name: str, arguments: "dict[str, Any]") -> "dict[str, Any]":
    """Call a tool and await the reply."""
    line = _line_of_code()
    try:
        reply = _reply(await _answered(_send(server_id, name, _encoded(server_id, name, arguments), line)))
    except _RefusedError as error:
        reply = error.reply
    except ChannelGoneError as error:
        reply = _failure("ExecutionEnded", str(error))
    return _with_line(reply, line)


def install_packages(requirements: str) -> "dict[str, Any]":
    """Ask the host to install packages for this session and block this thread until it has, or has refused."""
    try:
        channel, waiter, request_id = _ask_for(requirements.encode("utf-8", "replace"))
        try:
            channel.wait(waiter)
        except BaseException:
            channel.forget(request_id)
            raise
        return _reply(waiter)
    except _RefusedError as error:
        return error.reply
    except ChannelGoneError as error:
        return _failure("ExecutionEnded", str(error))


async def relay(server_id: str, name: str, arguments: bytes, *, line: int = 0) -> bytes:
    """Call a tool for another process of this sandbox: arguments object in, reply object out, both JSON.

    `line` of its code makes the call; 0: unknown.
    """
    return await _relayed(lambda: _send(server_id, name, arguments, line))


async def relay_installation(requirements: bytes) -> bytes:
    """`install_packages` for another process of this sandbox: the reply is JSON."""
    return await _relayed(lambda: _ask_for(requirements))


async def _relayed(send: "Callable[[], _Sent]") -> bytes:
    try:
        waiter = await _answered(send())
        if waiter.refused or waiter.message is None:
            raise _RefusedError("ValidationError", _TOO_LARGE)
        return waiter.message.body
    except _RefusedError as error:
        return json.dumps(error.reply).encode()
    except ChannelGoneError as error:
        return json.dumps(_failure("ExecutionEnded", str(error))).encode()


def tell_refused(server_id: str, name: str, message: str) -> None:
    """Let the host count a call that is refused here, so that it is told with the failed ones. Never raises."""
    channel = _state.get("channel")
    if channel is not None and 0 < len(server_id) <= 1024 and 0 < len(name) <= 1024:
        members = {"server": server_id, "tool": name, "message": message[:1000]}
        told = {key: value.encode("utf-8", "replace").decode() for key, value in members.items()}
        with suppress(ChannelGoneError):
            channel.send({"t": "call_refused", **told})


class _RefusedError(Exception):
    """The call cannot be sent; `reply` says why."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.reply = _failure(kind, message)


async def _answered(sent: "_Sent") -> Waiter:
    channel, waiter, request_id = sent
    try:
        await channel.wait_async(waiter)
    except BaseException:
        channel.forget(request_id)
        raise
    return waiter


def _encoded(server_id: str, name: str, arguments: "dict[str, Any]") -> bytes:
    try:
        return json.dumps(arguments, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        message = f"the arguments of {server_id}.{name} are not JSON: {error}"
        tell_refused(server_id, name, message)
        raise _RefusedError("ValidationError", message) from None


def _send(server_id: str, name: str, body: bytes, line: int) -> "_Sent":
    channel = _channel(f"{server_id}.{name} was called")
    if len(server_id) > 1024 or len(name) > 1024:
        raise _RefusedError("UnknownTool", "the name of the server or tool is too long")
    request_id = next(_ids)
    head: dict[str, Any] = {"t": "tool_call", "id": request_id, "server": server_id, "tool": name}
    if line:
        head["line"] = line
    return channel, channel.request(head, body), request_id


def _ask_for(requirements: bytes) -> "_Sent":
    channel, request_id = _channel("packages were asked for"), next(_ids)
    return channel, channel.request({"t": "install_packages", "id": request_id}, requirements), request_id


def _channel(what: str) -> GuestChannel:
    channel = _state.get("channel")
    if channel is None:
        raise _RefusedError("ExecutionEnded", f"{what} after the execution had ended")
    return channel


def _line_of_code() -> int:
    """The line of Python code that waits for the call; 0 where none does, as for a task of its own."""
    frame: "FrameType | None" = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_code.co_filename not in _code_names:
        frame = frame.f_back
    return 0 if frame is None else frame.f_lineno or 0


def _reply(waiter: Waiter) -> "dict[str, Any]":
    if waiter.refused or waiter.message is None:
        return _failure("ValidationError", _TOO_LARGE)
    return json.loads(waiter.message.body)


def _with_line(reply: "dict[str, Any]", line: int) -> "dict[str, Any]":
    """The reply, which says of a failed call where the code made it."""
    if line and reply.get("ok") is not True:
        reply["line"] = line
    return reply


def _failure(kind: str, message: str) -> "dict[str, Any]":
    return {"ok": False, "error": {"type": kind, "message": message, "retryable": False}}
