"""h11 with what it leaves open to a peer that has shown no credential yet.

SECURITY: a body in chunks of one byte costs 18 µs of the event loop for each, in one turn for all that one read has
brought, also when its request was refused already: chunks above `CHUNKS_FREE` must be `CHUNK_BYTES_MIN` on average. A
head that came behind another request is as bounded as any. A request with both `Content-Length` and `Transfer-Encoding`
is refused: a proxy that believes the other one would take its end for somebody else's request (RFC 9112 §6.3).
"""

from __future__ import annotations

from typing import Final

import h11

CHUNKS_FREE: Final = 256
CHUNK_BYTES_MIN: Final = 256


class BoundedConnection(h11.Connection):
    """A server's side of one connection."""

    def __init__(self, head_bytes_max: int) -> None:
        super().__init__(h11.SERVER, head_bytes_max)
        self._head_bytes_max = head_bytes_max
        self._chunks = self._body_bytes = 0
        self._held_head: list[bytes] = []
        self.problem = "this is no valid HTTP request"

    def next_event(self) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
        """Raises RemoteProtocolError for what breaks a bound, too; `problem` says which."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = self._body_bytes = 0
            self._check_head(event)
        elif isinstance(event, h11.Data):
            self._chunks += event.chunk_start
            self._body_bytes += len(event.data)
            if self._chunks > CHUNKS_FREE + self._body_bytes // CHUNK_BYTES_MIN:
                self._refuse(f"the body comes in too many small chunks; send {CHUNK_BYTES_MIN} bytes or more in each")
        return event

    def send_with_data_passthrough(self, event: h11.Event) -> list[bytes] | None:
        """The head of an answer of known length goes out with what follows it: one system call, one packet."""
        pieces = super().send_with_data_passthrough(event)
        if pieces is None:
            return None
        held, self._held_head = self._held_head, []
        if isinstance(event, h11.Response) and any(name == b"content-length" for name, _ in event.headers):
            self._held_head = pieces
            return []
        return held + pieces

    def _check_head(self, request: h11.Request) -> None:
        names = {name for name, _ in request.headers}
        if {b"content-length", b"transfer-encoding"} <= names:
            self._refuse("send either Content-Length or Transfer-Encoding, not both")
        size = len(request.target) + sum(len(name) + len(value) + 4 for name, value in request.headers)
        if size > self._head_bytes_max:
            self._refuse(f"the head of the request is larger than {self._head_bytes_max:,} bytes")

    def _refuse(self, problem: str) -> None:
        self.problem = problem
        raise h11.RemoteProtocolError(problem)
