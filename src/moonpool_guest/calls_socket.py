"""Tool calls from any program of a sandbox: PID 1 listens on an abstract socket while a companion runs code.

The command `moonpool` (`bin/`) is the client. Abstract names belong to the network namespace, which is the sandbox's
own. A connection carries one call, or asks the host for packages with the head {"packages": true} and requirements:

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
from moonpool_wire.limits import BLOB_BYTES_MAX_TO_HOST

ADDRESS = "\0moonpool"
SIZES = struct.Struct(">II")
SIZE = struct.Struct(">I")
HEAD_BYTES_MAX = 16 * 1024
CONNECTIONS_MAX = 64  # PID 1 has 256 descriptors, and the host takes 256 calls
_ACCEPT_PAUSE_S = 0.05
_READ_BYTES_MAX = 1 << 20
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
    service.open()
    try:
        return await work
    finally:
        await service.close()


class CallService:
    """Listens and passes calls on. Callers beyond `CONNECTIONS_MAX` wait in the listener's backlog."""

    def __init__(self) -> None:
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(CONNECTIONS_MAX)
        self._held = Allowance(_HELD_BYTES_MAX)

    def open(self) -> None:
        """Start to listen. Does nothing when a program of this sandbox has taken the name, or may have no sockets."""
        try:
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            self._listener.bind(ADDRESS)
            self._listener.listen(CONNECTIONS_MAX)
        except OSError:
            return
        self._keep(self._accept(self._listener))

    async def close(self) -> None:
        """Stop listening and give up what is open."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()

    def _keep(self, work: "Coroutine[Any, Any, None]") -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._room.acquire()
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError:  # code in PID 1 holds all descriptors
                self._room.release()
                await asyncio.sleep(_ACCEPT_PAUSE_S)
            else:
                self._keep(self._serve(connection))

    async def _serve(self, connection: socket.socket) -> None:
        try:
            reply = await self._answer(connection)
            await asyncio.get_running_loop().sock_sendall(connection, SIZE.pack(len(reply)) + reply)
        except (OSError, EOFError, ValueError, RecursionError):
            pass  # it went away, or does not speak our protocol
        finally:
            connection.close()
            self._room.release()

    async def _answer(self, connection: socket.socket) -> bytes:
        head_bytes, body_bytes = SIZES.unpack(await _receive(connection, SIZES.size))
        if head_bytes > HEAD_BYTES_MAX:
            raise ValueError("the head is too long")
        asked = _read_head(await _receive(connection, head_bytes))
        if body_bytes > BLOB_BYTES_MAX_TO_HOST:
            return json.dumps(_TOO_LARGE).encode()
        async with self._held.take(body_bytes):
            body = await _receive(connection, body_bytes)
            answer = toolcalls.relay_installation(body) if asked is None else toolcalls.relay(*asked, body)
            return await _unless_gone(answer, connection)


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


def _read_head(head: bytes) -> "tuple[str, str] | None":
    """The server and the tool; None: packages. Raises ValueError."""
    named: dict[str, Any] = json.loads(head)
    if named == {"packages": True}:
        return None
    try:
        server, tool = named["server"], named["tool"]
    except (TypeError, LookupError):
        raise ValueError("the head does not name a server and a tool") from None
    return str(server), str(tool)


async def _receive(connection: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes. Raises EOFError."""
    loop, data = asyncio.get_running_loop(), bytearray()
    while len(data) < size:
        part = await loop.sock_recv(connection, min(_READ_BYTES_MAX, size - len(data)))
        if not part:
            raise EOFError("the caller went away")
        data += part
    return bytes(data)


async def _unless_gone(call: "Coroutine[Any, Any, bytes]", connection: socket.socket) -> bytes:
    """Await `call` as long as somebody waits at the other end. Raises EOFError."""
    loop = asyncio.get_running_loop()
    calling, listening = asyncio.ensure_future(call), asyncio.ensure_future(loop.sock_recv(connection, 1))
    try:
        await asyncio.wait({calling, listening}, return_when=asyncio.FIRST_COMPLETED)
        if not calling.done():
            raise EOFError("the caller went away")
        return calling.result()
    finally:
        for task in (calling, listening):
            task.cancel()
        await asyncio.gather(calling, listening, return_exceptions=True)
