"""The private way between PID 1 and the Node process: frames over one end of a socket pair. See `link.cjs`.

A frame is u32 (bytes that follow), u16 (bytes of the head), the head as JSON, the body. Code in the Node process can
write here what it likes, so everything that comes is bounded and checked (`BrokenLinkError`).

What has been given to `send` is sent in order and whole, also when an execution ends meanwhile: the rest goes out with
the next turn of the loop.
"""

import asyncio
import collections
import json
import socket
import struct
from typing import Any

from moonpool_wire.limits import BLOB_BYTES_MAX_TO_HOST, HEAD_BYTES_MAX

_PREFIX = struct.Struct(">IH")
_FRAME_BYTES_MAX = _PREFIX.size + HEAD_BYTES_MAX + BLOB_BYTES_MAX_TO_HOST
_READ_BYTES = 65536

Frame = tuple["dict[str, Any]", bytes]


class BrokenLinkError(Exception):
    """What came is no frame. Only code that meddles with the descriptor can cause that."""


class Link:
    """PID 1's end. Used on one event loop."""

    def __init__(self, end: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        end.setblocking(False)
        self._end = end
        self._loop = loop
        self._received = bytearray()
        self._unsent: collections.deque[memoryview] = collections.deque()
        self._is_watching = False

    def send(self, head: "dict[str, Any]", body: bytes = b"") -> None:
        """Queue a frame and send what the socket takes. Nothing happens when the other side is gone."""
        encoded = json.dumps(head).encode()
        self._unsent.append(memoryview(_PREFIX.pack(2 + len(encoded) + len(body), len(encoded)) + encoded))
        if body:
            self._unsent.append(memoryview(body))
        self._flush()

    def _flush(self) -> None:
        try:
            while self._unsent:
                sent = self._end.send(self._unsent[0])
                rest = self._unsent.popleft()[sent:]
                if rest:
                    self._unsent.appendleft(rest)
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()  # whoever waits for an answer hears of the end through the process
        self._watch(bool(self._unsent))

    def _watch(self, wanted: bool) -> None:
        if wanted and not self._is_watching:
            self._loop.add_writer(self._end, self._flush)
        elif self._is_watching and not wanted:
            self._loop.remove_writer(self._end)
        self._is_watching = wanted

    async def receive(self) -> Frame:
        """Wait for a frame. Raises BrokenLinkError; waits for ever when the other side is gone."""
        while (frame := self._next_frame()) is None:
            try:
                data = await self._loop.sock_recv(self._end, _READ_BYTES)
            except OSError:  # it ended with something of ours unread
                data = b""
            if not data:
                await self._loop.create_future()
            self._received += data
        return frame

    def _next_frame(self) -> "Frame | None":
        if len(self._received) < _PREFIX.size:
            return None
        rest_size, head_size = _PREFIX.unpack_from(self._received)
        size = 4 + rest_size
        if size > _FRAME_BYTES_MAX or rest_size < 2 + head_size or head_size > HEAD_BYTES_MAX:
            raise BrokenLinkError(f"a frame of {size} bytes with a head of {head_size}")
        if len(self._received) < size:
            return None
        head_end = _PREFIX.size + head_size
        try:
            head = json.loads(self._received[_PREFIX.size : head_end])
        except (ValueError, RecursionError) as error:
            raise BrokenLinkError("a head that is not JSON") from error
        if not isinstance(head, dict):
            raise BrokenLinkError("a head that is not an object")
        body = bytes(self._received[head_end:size])
        del self._received[:size]
        return head, body  # pyright: ignore[reportUnknownVariableType]  JSON: the keys are strings

    def close(self) -> None:
        """Let go of the socket and what was not sent."""
        self._unsent.clear()
        self._watch(wanted=False)
        self._end.close()
