"""One order's conversation with the host, from the guest's side.

The order's own function pulls pieces (`pieces`) or pushes them (`send_all`); whoever pushes waits until the other end
asks for more. So nobody holds more than a window, and giving up is seen at the next step.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from moonpool_guest.channel import ChannelGoneError, GuestChannel
from moonpool_guest.files.refusals import RefusedError
from moonpool_wire.limits import FILE_PIECE_BYTES_MAX


class Exchange:
    """An order and the way to answer it."""

    def __init__(self, channel: GuestChannel, head: "dict[str, Any]") -> None:
        self._channel, self.head = channel, head
        self._order = head["order"]
        self._digest = hashlib.sha256()
        self.size = 0

    def say(self, kind: str, body: bytes = b"", **members: object) -> None:
        """Send an answer."""
        self._channel.send({"t": kind, "order": self._order, **members}, body)

    def done(self, *, entries: int, skipped: int = 0) -> None:
        """The order is carried out."""
        self.say("file_done", size=self.size, sha256=self._digest.hexdigest(), entries=entries, skipped=skipped)

    def pieces(self) -> Iterator[bytes]:
        """What the host sends, piece by piece. Ends when it says that this was all and the digest is right.

        A piece counts as used, and the next may come, when the one after it is asked for.
        """
        while True:
            kind, head, body = self._next()
            if kind == "file_commit":
                if head["sha256"] != self._digest.hexdigest():
                    raise RefusedError("digest_mismatch", "what arrived is not what was sent")
                return
            if kind == "file_piece":
                self._count(body, int(self.head["bytes_max"]))
                yield body
                self.say("file_taken")

    def send_all(self, chunks: Iterable[bytes]) -> None:
        """Send `chunks`, which may have any size, as pieces; wait whenever the host has enough for now."""
        allowed = 0
        for piece in _cut(chunks):
            self._count(piece, int(self.head["bytes_max"]))
            while not allowed:
                kind, head, _ = self._next()
                allowed += int(head["pieces"]) if kind == "file_next" else 0
            self.say("file_data", piece)
            allowed -= 1

    def _count(self, piece: bytes, bytes_max: int) -> None:
        self.size += len(piece)
        if self.size > bytes_max:
            raise RefusedError("too_large", f"it is larger than {bytes_max:,} bytes")
        self._digest.update(piece)

    def _next(self) -> "tuple[str, dict[str, Any], bytes]":
        while True:
            head, body = self._channel.wait_control()
            if head["t"] == "close":
                raise ChannelGoneError("the host has closed the channel")
            if head.get("order") != self._order:
                continue  # late words about an order that is over
            if head["t"] == "file_drop":
                raise RefusedError("dropped", "given up")
            return head["t"], head, body


def _cut(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces as large as they may be."""
    rest = bytearray()
    for chunk in chunks:
        if not rest and len(chunk) == FILE_PIECE_BYTES_MAX:
            yield chunk
            continue
        rest += chunk
        while len(rest) >= FILE_PIECE_BYTES_MAX:
            yield bytes(memoryview(rest)[:FILE_PIECE_BYTES_MAX])
            del rest[:FILE_PIECE_BYTES_MAX]
    if rest:
        yield bytes(rest)
