"""Bytes from one stream to the other, both ways, counted, within the limits of a session."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from moonpool.network.connections import Outcome, RefusedError

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable

    from moonpool.network.connections import Connection, NetworkLimits
    from moonpool.network.sni import ServerNameCheck

_PIECE_BYTES: Final = 64 * 1024


class Allowance:
    """The bytes that a session may still move, over all of its connections."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max, self.used = bytes_max, 0

    def check(self) -> None:
        """Raises RefusedError once all are used."""
        if self.used >= self._bytes_max:
            why = f"this session has moved the {self._bytes_max:,} bytes that it may (MOONPOOL_NETWORK_BYTES_MAX)"
            raise RefusedError(403, Outcome.TOO_MUCH, why)

    def spend(self, count: int) -> None:
        """Count bytes that pass. Raises RefusedError when they are more than may."""
        self.used += count
        if self.used > self._bytes_max:
            self.check()


class Meter:
    """Counts what one connection moves, and ends it when nothing moves for too long."""

    def __init__(
        self,
        connection: Connection,
        allowance: Allowance,
        limits: NetworkLimits,
        deadline: asyncio.Timeout,
        note_refusal: Callable[[RefusedError], None],
    ) -> None:
        self._connection, self._allowance, self._limits, self._deadline = connection, allowance, limits, deadline
        self.refused = note_refusal
        """A request is about to be answered with this."""
        self._wait(limits.first_byte_s)

    def up(self, count: int) -> None:
        """So many bytes are about to go to the server. Raises RefusedError."""
        self._allowance.spend(count)
        self._connection.bytes_up += count
        if self._connection.bytes_down:
            self._wait(self._limits.idle_s)

    def down(self, count: int) -> None:
        """So many bytes came from the server. Raises RefusedError."""
        self._allowance.spend(count)
        self._connection.bytes_down += count
        self._wait(self._limits.idle_s)

    def used_credential(self) -> None:
        """A request with the credential is about to be sent."""
        self._connection.with_credential = True

    def _wait(self, seconds: float) -> None:
        self._deadline.reschedule(asyncio.get_running_loop().time() + seconds)


async def relay(
    client: tuple[StreamReader, StreamWriter],
    server: tuple[StreamReader, StreamWriter],
    meter: Meter,
    check: ServerNameCheck,
) -> None:
    """Pass bytes on until both sides have ended, or either has broken off. Raises RefusedError, ServerNameError."""
    ways = (
        asyncio.ensure_future(_pump(client[0], server[1], meter.up, check)),
        asyncio.ensure_future(_pump(server[0], client[1], meter.down)),
    )
    try:
        await asyncio.gather(*ways)
    except ConnectionError:
        pass
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _pump(
    reader: StreamReader, writer: StreamWriter, count: Callable[[int], None], check: ServerNameCheck | None = None
) -> None:
    while piece := await reader.read(_PIECE_BYTES):
        count(len(piece))
        writer.write(piece if check is None else check.feed(piece))
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
