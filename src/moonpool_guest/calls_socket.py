"""Tool calls from any program of a sandbox: PID 1 listens on an abstract socket while a companion runs code.

The command `moonpool` (`bin/`) is the client. Abstract names belong to the network namespace, which is the sandbox's
own. A connection carries one call:

    to PID 1      u32 bytes of the head, u32 bytes of the arguments, head {"server", "tool"}, arguments object (JSON)
    from PID 1    u32 bytes of the reply, reply object (JSON), as the broker sent it

INVARIANT: bounded: connections, the bytes of arguments that are held for all of them together, and each part's size. A
caller that goes away gives up its call; the end of the execution gives up all.
"""

import asyncio
import json
import socket
import struct
from collections.abc import Coroutine
from typing import Any, TypeVar

from moonpool_guest import toolcalls
from moonpool_wire.limits import BLOB_BYTES_MAX_TO_HOST, CALLS_IN_FLIGHT_MAX

ADDRESS = "\0moonpool"
SIZES = struct.Struct(">II")
SIZE = struct.Struct(">I")
HEAD_BYTES_MAX = 16 * 1024
_CONNECTIONS_MAX = 128  # PID 1 has 256 descriptors
_HELD_BYTES_MAX = 2 * BLOB_BYTES_MAX_TO_HOST
_TOO_LARGE = {
    "ok": False,
    "error": {
        "type": "ValidationError",
        "message": f"the arguments are larger than {BLOB_BYTES_MAX_TO_HOST:,} bytes; pass less at a time",
        "retryable": False,
    },
}

_Result = TypeVar("_Result")


async def while_served(work: "Coroutine[Any, Any, _Result]") -> _Result:
    """Answer callers while `work` runs."""
    service = CallService()
    await service.open()
    try:
        return await work
    finally:
        await service.close()


class CallService:
    """Listens and passes calls on."""

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._held = Allowance(_HELD_BYTES_MAX)
        self._turns = asyncio.Semaphore(CALLS_IN_FLIGHT_MAX // 2)  # the rest is for the companion's own calls

    async def open(self) -> None:
        """Start to listen. Does nothing when a program of this sandbox has taken the name."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(ADDRESS)
            listener.setblocking(False)
            self._server = await asyncio.start_unix_server(self._accept, sock=listener, backlog=_CONNECTIONS_MAX)
        except OSError:
            listener.close()

    async def close(self) -> None:
        """Stop listening and give up what is open."""
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._serving) >= _CONNECTIONS_MAX:
            writer.transport.abort()
            return
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            reply = await self._answer(reader)
            writer.write(SIZE.pack(len(reply)))
            writer.write(reply)
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        except (OSError, EOFError, ValueError):
            pass  # it went away, or does not speak our protocol
        finally:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        head_bytes, body_bytes = SIZES.unpack(await reader.readexactly(SIZES.size))
        if head_bytes > HEAD_BYTES_MAX:
            raise ValueError("the head is too long")
        server, tool = _read_head(await reader.readexactly(head_bytes))
        if body_bytes > BLOB_BYTES_MAX_TO_HOST:
            return json.dumps(_TOO_LARGE).encode()
        async with self._held.take(body_bytes), self._turns:
            arguments = await reader.readexactly(body_bytes)
            return await _unless_gone(toolcalls.relay(server, tool, arguments), reader)


class Allowance:
    """So many bytes at once, for whoever asks first."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._changed = asyncio.Condition()

    def take(self, count: int) -> "_Taken":
        """A context that waits until `count` bytes are free and gives them back at its end."""
        return _Taken(self, count)

    async def acquire(self, count: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._left >= count)
            self._left -= count

    async def release(self, count: int) -> None:
        self._left += count
        async with self._changed:
            self._changed.notify_all()


class _Taken:
    def __init__(self, allowance: Allowance, count: int) -> None:
        self._allowance, self._count = allowance, count

    async def __aenter__(self) -> None:
        await self._allowance.acquire(self._count)

    async def __aexit__(self, *_: object) -> None:
        await self._allowance.release(self._count)


def _read_head(head: bytes) -> "tuple[str, str]":
    """The server and the tool. Raises ValueError."""
    named: dict[str, Any] = json.loads(head)
    try:
        server, tool = named["server"], named["tool"]
    except (TypeError, LookupError):
        raise ValueError("the head does not name a server and a tool") from None
    return str(server), str(tool)


async def _unless_gone(call: "Coroutine[Any, Any, bytes]", reader: asyncio.StreamReader) -> bytes:
    """Await `call` as long as somebody waits at the other end. Raises EOFError."""
    calling, listening = asyncio.ensure_future(call), asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait({calling, listening}, return_when=asyncio.FIRST_COMPLETED)
        if not calling.done():
            raise EOFError("the caller went away")
        return calling.result()
    finally:
        for task in (calling, listening):
            task.cancel()
        await asyncio.gather(calling, listening, return_exceptions=True)
