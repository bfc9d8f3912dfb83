"""The channel's state machine: messages in, bytes out, and back. No I/O, no clock, no threads.

A message is a head (JSON bytes) and a body (any bytes). A small body travels with its head in one frame. A larger one
travels as a blob: the receiver learns size and digest first, may refuse, and hands out credits; the message is
delivered when the blob is complete and its digest is right. Each direction carries one blob at a time, in order; small
messages pass a waiting blob.

States of the blob being received: none -> OPEN -> none. A chunk without an open blob, a second open, more bytes than
announced, a wrong digest: each is a WireError, after which the channel is dead. Chunks of a blob that was just refused
are dropped, because they were on their way already.

INVARIANT: what is buffered is at most one frame and one blob within `blob_bytes_max` coming in, what the caller gave
and did not want to have handled yet (`has_frames`), and what it queued going out (`unsent_bytes`). A blob that is
refused is larger than the window, so the sender, who got no credit, still has it: no limit is below the window.
"""

import hashlib
import struct
from collections import deque
from dataclasses import dataclass

from moonpool_wire.frames import FrameDecoder, Kind, WireError, encode_frame
from moonpool_wire.limits import (
    BLOB_CHUNK_BYTES_MAX,
    BLOB_WINDOW_BYTES,
    HEAD_BYTES_MAX,
    INLINE_BODY_BYTES_MAX,
)

_HEAD_LENGTH = struct.Struct(">H")
_OPEN = struct.Struct(">IQ32s")
_ID = struct.Struct(">I")
_CREDIT = struct.Struct(">II")


@dataclass(frozen=True, slots=True)
class Message:
    """A complete message from the peer."""

    head: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class BlobRefused:
    """The peer did not want the blob that belongs to this head: it is larger than the peer's limit."""

    head: bytes
    size: int


Event = Message | BlobRefused


class _Incoming:
    """A blob that is being received."""

    __slots__ = ("blob_id", "digest", "granted", "head", "received", "size", "taken")

    def __init__(self, blob_id: int, size: int, digest: bytes, head: bytes) -> None:
        self.blob_id, self.size, self.digest, self.head = blob_id, size, digest, head
        self.taken = bytearray()  # SECURITY: not a list of chunks: a peer may send them two bytes at a time
        self.received = 0
        self.granted = BLOB_WINDOW_BYTES


class _Outgoing:
    """A blob that is being sent."""

    __slots__ = ("blob_id", "body", "credit", "head", "sent")

    def __init__(self, blob_id: int, head: bytes, body: bytes) -> None:
        self.blob_id, self.head, self.body = blob_id, head, body
        self.sent = 0
        self.credit = BLOB_WINDOW_BYTES


class Channel:
    """One end of the channel. `blob_bytes_max` is what this end accepts, not what it sends.

    `frames_received` and `unsent_bytes` are for the owner's limits; the first only grows.
    """

    def __init__(self, *, blob_bytes_max: int) -> None:
        assert blob_bytes_max >= BLOB_WINDOW_BYTES, "a smaller blob could be sent whole before it is refused"
        self.frames_received = 0
        self.unsent_bytes = 0  # bodies of blobs that are queued or wait for credits
        self._blob_bytes_max = blob_bytes_max
        self._decoder = FrameDecoder()
        self._incoming: _Incoming | None = None
        self._refused_id = self._refused_room = 0  # the blob refused last; what of it may still be on its way
        self._last_incoming_id = 0
        self._outgoing: _Outgoing | None = None
        self._blob_queue: deque[tuple[bytes, bytes]] = deque()
        self._next_blob_id = 1
        self._out: list[bytes] = []
        self._dead = False

    @property
    def blobs_sent(self) -> int:
        """How many blobs were begun; the next has the next number."""
        return self._next_blob_id - 1

    @blobs_sent.setter
    def blobs_sent(self, count: int) -> None:
        """Go on where another end of the same stream left off, between two messages."""
        self._next_blob_id = count + 1

    # --- sending

    def send(self, head: bytes, body: bytes = b"") -> None:
        """Queue a message. Take the bytes to write from `data_to_send`."""
        assert len(head) <= HEAD_BYTES_MAX, "a head of ours is too long"
        if len(body) <= INLINE_BODY_BYTES_MAX:
            self._out.append(encode_frame(Kind.MESSAGE, _HEAD_LENGTH.pack(len(head)), head, body))
            return
        self._blob_queue.append((head, body))
        self.unsent_bytes += len(body)
        self._pump_blob()

    def data_to_send(self) -> bytes:
        """Return, and forget, the bytes that may be written now."""
        if not self._out:
            return b""
        data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out.clear()
        return data

    def _pump_blob(self) -> None:
        while True:
            if self._outgoing is None:
                if not self._blob_queue:
                    return
                head, body = self._blob_queue.popleft()
                blob = self._outgoing = _Outgoing(self._next_blob_id, head, body)
                self._next_blob_id += 1
                opening = _OPEN.pack(blob.blob_id, len(body), hashlib.sha256(body).digest())
                self._out.append(encode_frame(Kind.BLOB_OPEN, opening, head))
            blob = self._outgoing
            while blob.sent < len(blob.body) and blob.credit > 0:
                chunk = blob.body[blob.sent : blob.sent + min(BLOB_CHUNK_BYTES_MAX, blob.credit)]
                self._out.append(encode_frame(Kind.BLOB_DATA, _ID.pack(blob.blob_id), chunk))
                blob.sent += len(chunk)
                blob.credit -= len(chunk)
                self.unsent_bytes -= len(chunk)
            if blob.sent < len(blob.body):
                return
            self._outgoing = None

    # --- receiving

    @property
    def has_frames(self) -> bool:
        """Whether whole frames wait that `receive` left, because it was asked for a few only."""
        return self._decoder.has_frame

    def receive(self, data: bytes, frames_max: int | None = None) -> list[Event]:
        """Return what the next `frames_max` frames complete, or all frames that are whole.

        Raises WireError when the peer breaks the protocol; the channel is dead then.
        """
        if self._dead:
            raise WireError("the channel is broken")
        self._dead = True  # until all of `data` has been taken
        events: list[Event] = []
        for kind, payload in self._decoder.feed(data, frames_max):
            self.frames_received += 1
            event = self._receive_frame(kind, payload)
            if event is not None:
                events.append(event)
        self._dead = False
        return events

    def _receive_frame(self, kind: Kind, payload: bytes) -> Event | None:
        try:
            if kind is Kind.MESSAGE:
                return self._receive_message(payload)
            if kind is Kind.BLOB_OPEN:
                return self._receive_open(payload)
            if kind is Kind.BLOB_DATA:
                return self._receive_data(payload)
            if kind is Kind.BLOB_CREDIT:
                return self._receive_credit(payload)
            return self._receive_refusal(payload)
        except struct.error:
            raise WireError(f"a frame of kind {kind.name} has the wrong length") from None

    def _receive_message(self, payload: bytes) -> Message:
        (length,) = _HEAD_LENGTH.unpack_from(payload)
        body_at = _HEAD_LENGTH.size + length
        if length > HEAD_BYTES_MAX or body_at > len(payload) or len(payload) - body_at > INLINE_BODY_BYTES_MAX:
            raise WireError("a message's head or body does not fit its frame")
        return Message(payload[_HEAD_LENGTH.size : body_at], payload[body_at:])

    def _receive_open(self, payload: bytes) -> None:
        blob_id, size, digest = _OPEN.unpack_from(payload)
        head = payload[_OPEN.size :]
        if self._incoming is not None or blob_id <= self._last_incoming_id or len(head) > HEAD_BYTES_MAX:
            raise WireError(f"blob {blob_id} was opened out of turn")
        if size <= INLINE_BODY_BYTES_MAX:
            raise WireError(f"blob {blob_id} of {size} bytes should have been sent inline")
        self._last_incoming_id = blob_id
        if size > self._blob_bytes_max:
            self._refused_id, self._refused_room = blob_id, BLOB_WINDOW_BYTES
            self._out.append(encode_frame(Kind.BLOB_REFUSE, _ID.pack(blob_id)))
            return
        self._incoming = _Incoming(blob_id, size, digest, head)

    def _receive_data(self, payload: bytes) -> Message | None:
        (blob_id,) = _ID.unpack_from(payload)
        blob, chunk = self._incoming, payload[_ID.size :]
        if blob is None or blob.blob_id != blob_id:
            if blob_id != self._refused_id or len(chunk) > self._refused_room:
                raise WireError(f"bytes for blob {blob_id}, which is not open")
            self._refused_room -= len(chunk)
            return None
        blob.received += len(chunk)
        if not chunk or blob.received > blob.size:
            raise WireError(f"blob {blob_id} sends more or less than it may")
        blob.taken += chunk
        if blob.received == blob.size:
            return self._finish(blob)
        if blob.granted - blob.received <= BLOB_WINDOW_BYTES // 2 and blob.granted < blob.size:
            blob.granted += BLOB_WINDOW_BYTES
            self._out.append(encode_frame(Kind.BLOB_CREDIT, _CREDIT.pack(blob_id, BLOB_WINDOW_BYTES)))
        return None

    def _finish(self, blob: _Incoming) -> Message:
        self._incoming = None
        body = bytes(blob.taken)
        if hashlib.sha256(body).digest() != blob.digest:
            raise WireError(f"blob {blob.blob_id} does not match its digest")
        return Message(blob.head, body)

    def _receive_credit(self, payload: bytes) -> None:
        blob_id, granted = _CREDIT.unpack(payload)
        blob = self._outgoing
        if blob is None or blob.blob_id != blob_id:
            if 0 < blob_id < self._next_blob_id:
                return  # a credit for a blob that went out whole meanwhile
            raise WireError(f"a credit for blob {blob_id}, which was never sent")
        if granted > 2 * BLOB_WINDOW_BYTES:
            raise WireError(f"a credit of {granted} bytes")
        blob.credit = min(blob.credit + granted, 4 * BLOB_WINDOW_BYTES)
        self._pump_blob()

    def _receive_refusal(self, payload: bytes) -> BlobRefused:
        (blob_id,) = _ID.unpack(payload)
        blob = self._outgoing
        if blob is None or blob.blob_id != blob_id:
            raise WireError(f"blob {blob_id} was refused, but it is not being sent")
        self._outgoing = None
        self.unsent_bytes -= len(blob.body) - blob.sent
        self._pump_blob()
        return BlobRefused(blob.head, len(blob.body))
