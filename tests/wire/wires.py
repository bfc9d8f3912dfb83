"""Two channels wired together, and frames made by hand as a hostile peer makes them."""

from __future__ import annotations

import hashlib
import struct
from collections import deque

from moonpool_wire.channel import Channel, Event
from moonpool_wire.frames import Kind, encode_frame
from moonpool_wire.limits import BLOB_BYTES_MAX_TO_HOST, BLOB_CHUNK_BYTES_MAX


class Pair:
    """Two ends and the bytes between them, cut into chunks of the sizes given (repeated as often as needed)."""

    def __init__(
        self, *, chunk_sizes: tuple[int, ...] = (1 << 20,), blob_bytes_max: int = BLOB_BYTES_MAX_TO_HOST
    ) -> None:
        self.left = Channel(blob_bytes_max=blob_bytes_max)
        self.right = Channel(blob_bytes_max=blob_bytes_max)
        self.heard_left: list[Event] = []
        self.heard_right: list[Event] = []
        self._chunk_sizes = deque(chunk_sizes)

    def settle(self) -> None:
        """Carry bytes both ways until nothing moves any more."""
        while True:
            to_right, to_left = self.left.data_to_send(), self.right.data_to_send()
            if not to_right and not to_left:
                return
            self._carry(to_right, self.right, self.heard_right)
            self._carry(to_left, self.left, self.heard_left)

    def _carry(self, data: bytes, end: Channel, heard: list[Event]) -> None:
        at = 0
        while at < len(data):
            size = self._chunk_sizes[0]
            self._chunk_sizes.rotate(-1)
            heard += end.receive(data[at : at + size])
            at += size


def message_frame(head: bytes = b"{}", body: bytes = b"", *, head_length: int | None = None) -> bytes:
    length = len(head) if head_length is None else head_length
    return encode_frame(Kind.MESSAGE, struct.pack(">H", length), head, body)


def open_frame(blob_id: int, size: int, *, head: bytes = b"{}", digest: bytes | None = None) -> bytes:
    digest = digest or hashlib.sha256(bytes(size) if size < 1 << 24 else b"").digest()
    return encode_frame(Kind.BLOB_OPEN, struct.pack(">IQ", blob_id, size), digest, head)


def data_frame(blob_id: int, data: bytes) -> bytes:
    return encode_frame(Kind.BLOB_DATA, struct.pack(">I", blob_id), data)


def zero_chunks(blob_id: int, size: int) -> bytes:
    """`size` zero bytes as chunks."""
    sizes = [BLOB_CHUNK_BYTES_MAX] * (size // BLOB_CHUNK_BYTES_MAX) + [size % BLOB_CHUNK_BYTES_MAX]
    return b"".join(data_frame(blob_id, bytes(length)) for length in sizes if length)


def credit_frame(blob_id: int, granted: int) -> bytes:
    return encode_frame(Kind.BLOB_CREDIT, struct.pack(">II", blob_id, granted))


def refuse_frame(blob_id: int) -> bytes:
    return encode_frame(Kind.BLOB_REFUSE, struct.pack(">I", blob_id))
