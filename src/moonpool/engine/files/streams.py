"""The two streams: bytes from a source to the guest, bytes from the guest to a sink. Windowed, counted and digested."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from moonpool.engine.files.errors import DigestMismatchError, FileTooLargeError
from moonpool.sandboxes.messages import FileCommit, FileData, FileDone, FileNext, FileOpened, FilePiece, FileTaken
from moonpool_wire.limits import FILE_PIECE_BYTES_MAX, FILE_PIECES_IN_FLIGHT_MAX

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Awaitable, Callable, Iterator

    from moonpool.engine.files.exchange import FileExchange
    from moonpool.engine.files.records import TransferTally

    Sink = Callable[[bytes], Awaitable[None]]
    Source = AsyncIterable[bytes]

_ASK_AGAIN = FILE_PIECES_IN_FLIGHT_MAX // 2


async def send_all(exchange: FileExchange, source: Source, tally: TransferTally, *, bytes_max: int) -> FileDone:
    """Send everything of `source`, then have it put in its place. Raises FileTransferError."""
    digest = hashlib.sha256()
    in_flight = 0
    async for chunk in source:
        tally.size += len(chunk)
        if tally.size > bytes_max:
            how = f"send less at a time, or raise {exchange.size_setting}"
            raise FileTooLargeError(f"{exchange.path}: more than {bytes_max:,} bytes cannot be sent; {how}")
        digest.update(chunk)
        for piece in _cut(chunk):
            while exchange.answered() or in_flight == FILE_PIECES_IN_FLIGHT_MAX:
                in_flight -= await _taken(exchange, in_flight)
            exchange.send(FilePiece(order=exchange.order), piece)
            in_flight += 1
    tally.sha256 = digest.hexdigest()
    while in_flight:
        in_flight -= await _taken(exchange, in_flight)
    exchange.send(FileCommit(order=exchange.order, sha256=tally.sha256))
    done, _ = await exchange.answer()
    if not isinstance(done, FileDone):
        raise exchange.violate("it answered the end of an upload with something else")
    if (done.size, done.sha256) != (tally.size, tally.sha256):
        exchange.violate("its digest of what it got is wrong")
        raise DigestMismatchError(f"{exchange.path}: the sandbox got something else than was sent; it was ended")
    return done


async def receive_all(exchange: FileExchange, sink: Sink, tally: TransferTally, *, bytes_max: int) -> FileDone:
    """Hand everything that the guest sends to `sink`. Raises FileTransferError; what the sink got is void then."""
    opened, _ = await exchange.answer()
    if not isinstance(opened, FileOpened):
        raise exchange.violate("it sent bytes before it said that it would")
    digest = hashlib.sha256()
    asked = FILE_PIECES_IN_FLIGHT_MAX
    exchange.send(FileNext(order=exchange.order, pieces=asked))
    while True:
        answer, piece = await exchange.answer()
        if isinstance(answer, FileDone):
            break
        asked -= 1
        tally.size += len(piece)
        if not isinstance(answer, FileData) or asked < 0 or not piece:
            raise exchange.violate("it sent what it was not asked for")
        if tally.size > bytes_max:
            raise exchange.violate(f"it sent more than {bytes_max:,} bytes")
        digest.update(piece)
        await sink(piece)
        if asked <= _ASK_AGAIN:
            exchange.send(FileNext(order=exchange.order, pieces=FILE_PIECES_IN_FLIGHT_MAX - asked))
            asked = FILE_PIECES_IN_FLIGHT_MAX
    tally.sha256 = digest.hexdigest()
    if (answer.size, answer.sha256) != (tally.size, tally.sha256):
        exchange.violate("its digest of what it sent is wrong")
        raise DigestMismatchError(f"{exchange.path}: what arrived is not what the sandbox says it sent; it was ended")
    return answer


async def _taken(exchange: FileExchange, in_flight: int) -> int:
    """Wait for the guest to use one piece."""
    answer, _ = await exchange.answer()
    if not isinstance(answer, FileTaken) or not in_flight:
        raise exchange.violate("it took what it was not sent")
    return 1


def _cut(chunk: bytes) -> Iterator[bytes]:
    if len(chunk) <= FILE_PIECE_BYTES_MAX:
        if chunk:
            yield chunk
        return
    view = memoryview(chunk)
    for start in range(0, len(chunk), FILE_PIECE_BYTES_MAX):
        yield bytes(view[start : start + FILE_PIECE_BYTES_MAX])
