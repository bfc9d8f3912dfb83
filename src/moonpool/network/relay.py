"""Bytes from one stream to the other, both ways, counted, within the limits of a session."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import TYPE_CHECKING, Final

from moonpool.network.connections import Outcome, RefusedError

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable

    from moonpool.network.connections import Connection, NetworkLimits
    from moonpool.network.sni import ServerNameCheck

_PIECE_BYTES: Final = 64 * 1024
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class Allowance:
    """The bytes that a session may still move, over all of its connections."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max, self.used = bytes_max, 0

    def check(self) -> None:
        """Raises RefusedError once all are used."""
        if self.used >= self._bytes_max:
            why = f"this session has moved the {self._bytes_max:,} bytes that it may"
            raise RefusedError(403, Outcome.TOO_MUCH, why, on_record=f"{why} (MOONPOOL_NETWORK_BYTES_MAX)")

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
        self._wait(self._limits.idle_s if self._connection.bytes_down else self._limits.first_byte_s)

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
    """Pass bytes on until both sides have ended, or the client has broken off.

    Raises RefusedError, also where the server has broken off, and what `check` raises.
    """

    async def up() -> None:
        while piece := await client[0].read(_PIECE_BYTES):
            meter.up(len(piece))
            server[1].write(check.feed(piece))
            await server[1].drain()
        _end(server[1])

    async def down() -> None:
        while piece := await server[0].read(_PIECE_BYTES):
            meter.down(len(piece))
            held = check.answered(piece)
            if held and not ways[0].done():  # else the client has ended without waiting for the answer
                server[1].write(held)
            client[1].write(piece)
            await client[1].drain()
        _end(client[1])

    ways = (asyncio.ensure_future(up()), asyncio.ensure_future(down()))
    try:
        await asyncio.gather(*ways)
    except ConnectionError:
        has_answered = ways[1].done() and ways[1].exception() is None
        if server[0].exception() is not None and not has_answered:
            raise RefusedError(502, Outcome.FAILED, "the server broke the connection off") from None
        break_off(server[1])
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


def _end(writer: StreamWriter) -> None:
    if writer.can_write_eof():
        writer.write_eof()


def break_off(writer: StreamWriter) -> None:
    """Close it at once, and so that the other side cannot take it for an end: by a reset."""
    with contextlib.suppress(OSError):  # it is closed
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()
