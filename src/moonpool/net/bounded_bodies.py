"""Bodies of HTTP responses: every byte is counted as it arrives and again when decompressed, and reading is throttled.

A body is either read completely up to a limit (`read_body`) or passed on event by event (`EventStream`).

SECURITY: received bytes are counted, too, because not all of them become bytes of the body: the decoder keeps what
follows the end of a compressed body and yields nothing. Bodies that are compressed twice are refused, because the inner
decoder could keep what the outer one makes of a few bytes. SECURITY: an event is passed on when it is complete and its
lines, objects and values are counted, because its reader creates an object for each.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import httpx2

from moonpool.net.message_limits import RESULT_BYTES_MAX, RESULT_CONTAINERS_MAX, exceeded_json, too_large
from moonpool.net.throttle import cost, pieces

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from moonpool.net.throttle import Throttle

SILENT_BYTES_MAX: Final = 1024 * 1024
"""How much may arrive without producing a byte of the body; a working decoder needs less."""
EVENT_LINES_MAX: Final = 100_000
RETRY_MS_MIN: Final = 100
RETRY_MS_MAX: Final = 60_000
"""Upper bound of the retry time that a server may set."""
_RETRY: Final = re.compile(rb"^retry:[^\n]*", re.MULTILINE)


class BodyRefusedError(httpx2.SSEError):
    """A body exceeds a limit, or the rest is not needed; the SDK turns it into an error of its request."""


class CountedStream(httpx2.AsyncByteStream):
    """The received bytes of one response. Raises BodyRefusedError if too many of them are `silent`."""

    def __init__(self, inner: httpx2.AsyncByteStream, throttle: Throttle) -> None:
        self.silent = 0  # reset by the reader when it gets a byte of the body
        self._inner, self._throttle = inner, throttle

    async def __aiter__(self) -> AsyncIterator[bytes]:
        arriving = aiter(self._inner)
        try:
            async for piece in arriving:
                self.silent += len(piece)
                if self.silent > SILENT_BYTES_MAX:
                    raise BodyRefusedError(f"{too_large(SILENT_BYTES_MAX)} that are nothing when they are unpacked")
                await self._throttle.spend()
                yield piece
        finally:
            if isinstance(arriving, AsyncGenerator):
                await arriving.aclose()

    async def aclose(self) -> None:
        await self._inner.aclose()


async def read_body(response: httpx2.Response, bytes_max: int, throttle: Throttle | None = None) -> bytes:
    """The decompressed body; the response is closed in any case. Raises BodyRefusedError, httpx2.HTTPError."""
    body = bytearray()
    try:
        async with aclosing(_pieces(response, throttle or pieces())) as arriving:
            async for piece in arriving:
                body += piece
                if len(body) > bytes_max:
                    raise BodyRefusedError(too_large(bytes_max))
    finally:
        await response.aclose()
    return bytes(body)


async def _pieces(response: httpx2.Response, throttle: Throttle) -> AsyncGenerator[bytes]:
    """The decompressed body in pieces of at most 1 MiB. Raises BodyRefusedError."""
    if len(response.headers.get_list("content-encoding", split_commas=True)) > 1:
        raise BodyRefusedError("a body that is compressed more than once")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = wire = CountedStream(response.stream, throttle)
    async with aclosing(response.aiter_bytes()) as arriving:
        async for piece in arriving:
            wire.silent = 0
            yield piece


class EventStream(httpx2.AsyncByteStream):
    """The server-sent events of a response, one at a time, unchanged except for `retry`.

    `refuse` is called with the reason when an event is refused. `wanted` says whether the rest is still needed. `free`
    events (answers to requests) are not charged to `unasked`. Without `unasked` the caller counts the contents of
    events.
    """

    def __init__(
        self,
        response: httpx2.Response,
        *,
        refuse: Callable[[str], None],
        wanted: Callable[[], bool],
        throttle: Throttle,
        unasked: Throttle | None,
        free: int,
    ) -> None:
        self._response, self._refuse, self._wanted = response, refuse, wanted
        self._throttle, self._unasked, self._free = throttle, unasked, free

    async def __aiter__(self) -> AsyncIterator[bytes]:
        block, cut = bytearray(), b""
        async with aclosing(_pieces(self._response, self._throttle)) as arriving:
            async for piece in arriving:
                if not self._wanted():
                    raise BodyRefusedError("nobody waits for it any more")
                text = cut + piece
                cut = b"\r" if text.endswith(b"\r") else b""  # it may be half of a line's end
                seen = max(len(block) - 1, 0)
                block += text[: len(text) - len(cut)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
                while (end := block.find(b"\n\n", seen) + 2) > 1:
                    event, seen = bytes(block[:end]), 0
                    del block[:end]
                    yield self._checked(event)
                    if self._free:
                        self._free -= 1
                    elif self._unasked is not None:
                        await self._unasked.spend(cost(end))
                if len(block) > RESULT_BYTES_MAX:
                    raise self._refused(too_large(RESULT_BYTES_MAX))
        if cut and block.endswith(b"\n"):
            yield self._checked(bytes(block) + b"\n")

    def _checked(self, event: bytes) -> bytes:
        if event.count(b"\n") > EVENT_LINES_MAX:
            raise self._refused(f"more than {EVENT_LINES_MAX} lines")
        if self._unasked is not None and len(event) > RESULT_CONTAINERS_MAX:  # a smaller one cannot exceed the limit
            # SECURITY: only the data; a quote in another line would make the rest look like one long string.
            data = b"\n".join(line[5:] for line in event.split(b"\n") if line.startswith(b"data:"))
            if (bound := exceeded_json(data)) is not None:
                raise self._refused(bound)
        return _RETRY.sub(_clamped, event) if b"retry" in event else event

    def _refused(self, why: str) -> BodyRefusedError:
        self._refuse(why)
        return BodyRefusedError(why)

    async def aclose(self) -> None:
        await self._response.aclose()


def _clamped(line: re.Match[bytes]) -> bytes:
    digits = line[0].partition(b":")[2].strip()
    if not digits.isdigit() or len(digits) > 15:
        return b"retry: %d" % RETRY_MS_MAX if digits.isdigit() else b":"
    return b"retry: %d" % min(max(int(digits), RETRY_MS_MIN), RETRY_MS_MAX)
