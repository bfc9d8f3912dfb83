"""Framing: one 32-bit big-endian word (kind in the top byte, length in the rest), then the payload.

    kind 1  MESSAGE      u16 head length, head (JSON), body
    kind 2  BLOB_OPEN    u32 blob id, u64 size, 32 bytes SHA-256, head of the message that the blob belongs to
    kind 3  BLOB_DATA    u32 blob id, bytes
    kind 4  BLOB_CREDIT  u32 blob id, u32 bytes that may follow
    kind 5  BLOB_REFUSE  u32 blob id

SECURITY: the length is checked before anything is allocated, and a decoder that has raised stays broken.
"""

import struct
from enum import IntEnum

from moonpool_wire.limits import FRAME_BYTES_MAX


class WireError(Exception):
    """The peer broke the protocol. Whoever holds the channel discards the peer."""


class Kind(IntEnum):
    """What a frame's payload is."""

    MESSAGE = 1
    BLOB_OPEN = 2
    BLOB_DATA = 3
    BLOB_CREDIT = 4
    BLOB_REFUSE = 5


_WORD = struct.Struct(">I")
_KINDS = {int(kind): kind for kind in Kind}
_LENGTH_MASK = 0x00FF_FFFF


def encode_frame(kind: Kind, *parts: bytes) -> bytes:
    """One frame of `kind` whose payload is `parts` joined. The caller keeps to `FRAME_BYTES_MAX`."""
    length = sum(map(len, parts))
    assert length <= FRAME_BYTES_MAX, "a frame of ours is too long"
    return b"".join((_WORD.pack(kind << 24 | length), *parts))


def restart_mark(token: str) -> bytes:
    """What both sides send, raw, when another process of the guest takes the channel over in the middle of a frame.

    `token` is the host's, in hexadecimal. A decoder that has read the beginning of a mark waits for the rest.
    """
    return _WORD.pack(Kind.MESSAGE << 24 | FRAME_BYTES_MAX) + bytes.fromhex(token)


class FrameDecoder:
    """Cuts a stream of bytes into frames. Feed what arrives; get the frames that are complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._broken = False

    @property
    def buffered_bytes(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._buffer)

    @property
    def has_frame(self) -> bool:
        """Whether `feed` would return a frame, or raise, without further data."""
        if len(self._buffer) < _WORD.size:
            return False
        (word,) = _WORD.unpack_from(self._buffer)
        return word >> 24 not in _KINDS or len(self._buffer) - _WORD.size >= word & _LENGTH_MASK

    def feed(self, data: bytes, count_max: int | None = None) -> list[tuple[Kind, bytes]]:
        """Return the frames that are complete, the first `count_max` of them; the others wait for the next call.

        Raises WireError for an unknown kind or a length above the limit.
        """
        if self._broken:
            raise WireError("the channel is broken")
        self._buffer += data
        frames: list[tuple[Kind, bytes]] = []
        start, end = 0, len(self._buffer)
        while end - start >= _WORD.size and len(frames) != count_max:
            (word,) = _WORD.unpack_from(self._buffer, start)
            kind, length = word >> 24, word & _LENGTH_MASK
            if kind not in _KINDS or length > FRAME_BYTES_MAX:
                self._broken = True
                raise WireError(f"frame of kind {kind} with {length} bytes")
            if end - start - _WORD.size < length:
                break
            start += _WORD.size
            frames.append((_KINDS[kind], bytes(memoryview(self._buffer)[start : start + length])))
            start += length
        if start:
            del self._buffer[:start]
        return frames
