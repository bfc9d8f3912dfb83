"""A session of the revisions 2025-03-26 to 2025-11-25 over Streamable HTTP: POST, GET, DELETE, `Mcp-Session-Id`.

Each POST is answered by one JSON body, or by a stream of events if the server has something to say before its answer or
takes longer than `QUICK_S`. A connection that breaks ends nothing: the call goes on, and what it says can be read by
resuming its stream. `notifications/cancelled` and DELETE end calls.

INVARIANT: every message goes to one stream: what belongs to a call to that call's, everything else to one GET stream.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from moonpool.server.http.responses import EventResponse, json_response, rpc_error, until_disconnect
from moonpool.server.mcp.gated_server import GatedServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server import Server
    from starlette.types import Receive

    from moonpool.server.http.event_streams import EventLog, EventStream
    from moonpool.server.http.revisions import Accepted

SESSION_HEADER: Final = "mcp-session-id"
QUICK_S: Final = 1.0
"""How long an answer may take to come as one JSON body to a client that takes streams."""
GET_STREAMS_MAX: Final = 4
_PRIMED_FROM: Final = "2025-11-25"
_log = logging.getLogger(__name__)


def _nothing() -> None:
    """Nobody waits for the end."""


class McpSession:
    """One session. `used_at` is when something last happened in it."""

    def __init__(self, server: Server[Any], log: EventLog) -> None:
        self.session_id = secrets.token_urlsafe(24)
        self._log = log
        self._server = GatedServer(server, to_client=self._send_unrelated)
        self._unrelated: list[EventStream] = []  # GET streams, the oldest first
        self._requests = 0
        self.used_at = asyncio.get_running_loop().time()

    @property
    def version(self) -> str:
        """The negotiated revision; empty: the handshake has failed."""
        return self._server.gate.version

    @property
    def is_running(self) -> bool:
        return self._server.is_running

    @property
    def is_idle(self) -> bool:
        """Nothing runs in it and nobody listens to it."""
        return self._server.gate.idle.is_set() and not self._requests and not any(s.is_read for s in self._unrelated)

    @property
    def idle(self) -> asyncio.Event:
        """Set while no call waits for its answer."""
        return self._server.gate.idle

    async def post(
        self,
        value: Any,
        accepted: Accepted,
        receive: Receive,
        *,
        quick_s: float = QUICK_S,
        ended: Callable[[], None] = _nothing,
    ) -> Response:
        """Take one decoded message or batch. It is answered as a stream of events after `quick_s` at the latest.

        `ended` is called when nothing of it runs any more, which may be after its connection has broken.
        """
        self._requests += 1
        self.touch()
        exchange: _StreamedReply | _WholeReply = _WholeReply(ended)
        if accepted.streams:
            exchange = _StreamedReply(self._log.open(self.session_id), quick_s if accepted.json else 0.0, ended)
        try:
            try:
                await self._server.gate.take(value, exchange)
            except BaseException:
                ended()
                raise
            if not await until_disconnect(exchange.settled, receive):
                return Response(status_code=202)  # nobody reads it; a stream can be resumed
            if (whole := exchange.take_whole()) is not None:
                return json_response(whole, headers=self.headers) if whole else Response(status_code=202)
            assert isinstance(exchange, _StreamedReply)
            return self._streamed(exchange.stream, exchange.give_reader(), prime=self.version >= _PRIMED_FROM)
        finally:
            exchange.leave()
            self._requests -= 1
            self.touch()

    def listen(self) -> Response:
        """A GET stream: what belongs to no call."""
        for stream in [one for one in self._unrelated if not one.is_read][:-1]:
            stream.forget()
            self._unrelated.remove(stream)
        if sum(one.is_read for one in self._unrelated) >= GET_STREAMS_MAX:
            return rpc_error(409, f"{GET_STREAMS_MAX} GET streams are open in this session; use one of them")
        stream = self._log.open(self.session_id)
        self._unrelated.append(stream)
        return self._streamed(stream, stream.attach(), prime=self.version >= _PRIMED_FROM)

    def resume(self, event_id: str) -> Response:
        """What followed this event on its stream, and what follows from now on."""
        found = self._log.find(event_id, self.session_id)
        if found is None:
            return rpc_error(404, "there is no such event in this session, or what followed it is no longer kept")
        stream, number = found
        return self._streamed(stream, stream.attach(), after=number)

    def _streamed(self, stream: EventStream, reader: int, *, after: int | None = None, prime: bool = False) -> Response:
        def ended() -> None:
            stream.detach(reader)
            self.touch()

        return EventResponse(stream.frames(reader, after=after, prime=prime), ended, self.headers)

    @property
    def headers(self) -> dict[str, str]:
        return {SESSION_HEADER: self.session_id}

    def end_listening(self) -> None:
        """End the GET streams."""
        for stream in self._unrelated:
            stream.forget()
        self._unrelated.clear()

    async def close(self) -> None:
        """End its calls and streams."""
        await self._server.close()
        self._log.forget_session(self.session_id)

    def touch(self) -> None:
        self.used_at = asyncio.get_running_loop().time()

    async def _send_unrelated(self, line: bytes) -> None:
        """To one GET stream: one that is read, else the newest that a client may resume."""
        if not self._unrelated:
            _log.debug("nobody listens to session %s", self.session_id[:6])
            return
        stream = next((one for one in self._unrelated if one.is_read), self._unrelated[-1])
        await stream.send(line)


class _WholeReply:
    """The reply to a POST of a client that takes one JSON body: what comes before the answer is left out."""

    takes_requests = False

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._line = b""
        self._ended, self._on_end = asyncio.Event(), on_end

    async def send(self, line: bytes, /) -> None:
        self._line = line

    def end(self) -> None:
        self._ended.set()
        self._on_end()

    async def settled(self) -> None:
        await self._ended.wait()

    def take_whole(self) -> bytes | None:
        return self._line

    def leave(self) -> None:
        """It holds nothing."""


class _StreamedReply:
    """The reply to a POST of a client that takes streams."""

    takes_requests = True

    def __init__(self, stream: EventStream, quick_s: float, on_end: Callable[[], None]) -> None:
        """Without `quick_s` it is a stream in any case."""
        self.stream, self._quick_s, self._on_end = stream, quick_s, on_end
        self._reader: int | None = stream.attach()
        self._lines: list[bytes] = []  # of two at most: more is a stream

    async def send(self, line: bytes, /) -> None:
        if len(self._lines) < 2:
            self._lines.append(line)
        await self.stream.send(line)

    def end(self) -> None:
        self.stream.end()
        self._on_end()

    async def settled(self) -> None:
        """Wait until it is known whether there is nothing but the answer."""
        if self._quick_s and self._reader is not None:
            await self.stream.wait(self._reader, self._quick_s)

    def take_whole(self) -> bytes | None:
        """The answer if there is nothing else, empty if there is none; None: it is a stream."""
        if not self._quick_s or not self.stream.ended or len(self._lines) > 1:
            return None
        self.stream.forget()
        return self._lines[0] if self._lines else b""

    def give_reader(self) -> int:
        """From now on somebody else detaches it."""
        assert self._reader is not None
        reader, self._reader = self._reader, None
        return reader

    def leave(self) -> None:
        """Keep what comes for a client that resumes."""
        if self._reader is not None:
            self.stream.detach(self._reader)
