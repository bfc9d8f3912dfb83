"""Bodies of HTTP responses: every byte is counted as it arrives and again as it is unpacked, and none is read too fast.

A body is read whole up to a limit (`read_body`) or passed on event by event (`EventStream`); there is no third way.

SECURITY: the bytes on the wire are counted too, because not each of them becomes a byte of the body: what follows the
end of a compressed one is kept by the decoder and yields nothing. Of a body that is compressed twice the inner decoder
could keep what the outer one makes of a few bytes, so none is taken.
SECURITY: an event is passed on when it is complete and its lines, objects and values are counted, because whoever reads
it makes an object of each.
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
"""What may arrive without a byte of the body; a decoder that still decodes has made something of less."""
EVENT_LINES_MAX: Final = 100_000
RETRY_MS_MIN: Final = 100
RETRY_MS_MAX: Final = 60_000
"""When to ask again is the server's to say, but neither at once and for ever nor never."""
_RETRY: Final = re.compile(rb"^retry:[^\n]*", re.MULTILINE)


class BodyRefusedError(httpx2.SSEError):
    """A body exceeds a limit, or nobody wants the rest; the SDK makes an error of it for the request it belongs to."""


class CountedStream(httpx2.AsyncByteStream):
    """What arrives for one response. Raises BodyRefusedError when too much of it is `silent`."""

    def __init__(self, inner: httpx2.AsyncByteStream, throttle: Throttle) -> None:
        self.silent = 0  # set back by whoever gets a byte of the body
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
    """The body, unpacked; the response is closed in any case. Raises BodyRefusedError, httpx2.HTTPError."""
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
    """The body, unpacked, in pieces of at most 1 MiB. Raises BodyRefusedError."""
    if len(response.headers.get_list("content-encoding", split_commas=True)) > 1:
        raise BodyRefusedError("a body that is compressed more than once")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = wire = CountedStream(response.stream, throttle)
    async with aclosing(response.aiter_bytes()) as arriving:
        async for piece in arriving:
            wire.silent = 0
            yield piece


class EventStream(httpx2.AsyncByteStream):
    """The server-sent events of a response, as they came but for `retry`, one at a time.

    `refuse` is told why an event is refused. `wanted` says whether anybody still waits for the rest. `free` events cost
    none of `unasked`: the answers to requests. Without `unasked` whoever decodes the events counts what is in them.
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
        if self._unasked is not None and len(event) > RESULT_CONTAINERS_MAX:  # a smaller one cannot hold as many
            # SECURITY: the data alone; a quote in another line would make the rest look like one long string.
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
