"""One tree into a sandbox, and its changes out. The stream is that of any file (`moonpool.engine.files.streams`).

SECURITY: a guest that lies about anything is ended; a change counts only once all of it has come and its digest is
right, and it is made of nothing but bytes that it sent.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.engine.files.exchange import exchanging
from moonpool.engine.files.records import TransferTally
from moonpool.engine.files.streams import receive_all, send_all
from moonpool.engine.stored_files.listing import LENGTH_BYTES, DishonestGuestError, encoded, read_changes
from moonpool.engine.stored_files.model import StoredFilesError, is_reserved, with_folders_above
from moonpool.sandboxes.messages import TreeChanges, TreeFill
from moonpool_wire.limits import FILE_PIECE_BYTES_MAX, TREE_LIST_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Sequence

    from moonpool.engine.stored_files.listing import Changes, Listed
    from moonpool.features.storage.base import Snapshot, TreeWriter
    from moonpool.features.storage.model import Entry
    from moonpool.sandboxes.base import Sandbox

_ORDERS = itertools.count(1 << 40)  # none of these is one of `moonpool.engine.files.service`


async def fill(
    sandbox: Sandbox, place: str, snapshot: Snapshot | None, entries: Sequence[Entry], *, timeout_s: float
) -> None:
    """Make the folder `place` hold `entries`, whose contents are in `snapshot`.

    Raises FileTransferError, and what `Snapshot.read` raises.
    """
    listed = encoded(entries)
    size = len(listed) + sum(one.size for one in entries)
    opening = TreeFill(order=next(_ORDERS), path=place, bytes_max=size)
    async with exchanging(sandbox, opening, timeout_s=timeout_s) as exchange:
        source = _in_pieces(_contents(listed, snapshot, entries))
        tally = TransferTally()
        await send_all(exchange, source, tally, bytes_max=size)
        if tally.size != size:  # the guest has found it out, too
            raise StoredFilesError(f"what is stored for {place} is not as long as it should be")


async def _contents(listed: bytes, snapshot: Snapshot | None, entries: Iterable[Entry]) -> AsyncIterator[bytes]:
    yield listed
    for one in entries:
        if one.size:
            assert snapshot is not None
            async for chunk in snapshot.read(one):
                yield chunk


async def _in_pieces(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in pieces as large as they may be: each costs a message and its answer."""
    rest = bytearray()
    async for chunk in chunks:
        rest += chunk
        whole = len(rest) - len(rest) % FILE_PIECE_BYTES_MAX
        if whole:
            yield bytes(memoryview(rest)[:whole])
            del rest[:whole]
    if rest:
        yield bytes(rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What came out."""

    count: int  # of entries and removals; 0: nothing changed
    skipped: int  # what is kept nowhere: pipes, sockets, names that are no text


async def take_changes(
    sandbox: Sandbox,
    place: str,
    writer: TreeWriter,
    *,
    brought: Collection[str],
    hidden: Collection[str],
    bytes_max: int,
    timeout_s: float,
) -> Taken:
    """Give `writer` what changed in the folder `place`, to which `brought` was brought and `hidden` was not.

    Raises FileTransferError, and what `TreeWriter` raises.
    """
    most = bytes_max + TREE_LIST_BYTES_MAX + LENGTH_BYTES
    opening = TreeChanges(order=next(_ORDERS), path=place, bytes_max=most)
    sink = _ChangeSink(writer, brought, hidden, bytes_max)
    async with exchanging(sandbox, opening, timeout_s=timeout_s) as exchange:
        try:
            done = await receive_all(exchange, sink.take, TransferTally(), bytes_max=most)
            sink.check_complete()
        except DishonestGuestError as lie:
            raise exchange.violate(str(lie)) from None
    return Taken(count=sink.count, skipped=min(done.skipped, most) + sink.skipped)


class _ChangeSink:
    """Cuts the stream of a guest into its list and the files of it, and hands them to a writer."""

    def __init__(self, writer: TreeWriter, brought: Collection[str], hidden: Collection[str], bytes_max: int) -> None:
        self._writer, self._brought, self._bytes_max = writer, brought, bytes_max
        self._kept = with_folders_above(hidden)  # what was not brought in stays, and so what is above it
        self._above = self._kept.difference(hidden)
        self._head = bytearray()
        self._files: list[Listed] | None = None  # that are still to come, the next one last; None: no list yet
        self._left = 0  # bytes of the one that comes
        self._is_dropped = False  # the one that comes
        self.count = self.skipped = 0

    async def take(self, piece: bytes) -> None:
        """The next bytes. Raises DishonestGuestError, and what the writer raises."""
        if self._files is None:
            self._head += piece
            if len(self._head) < LENGTH_BYTES:
                return
            end = LENGTH_BYTES + int.from_bytes(self._head[:LENGTH_BYTES], "big")
            if end - LENGTH_BYTES > TREE_LIST_BYTES_MAX:
                raise DishonestGuestError("its list of changes is too long")
            if len(self._head) < end:
                return
            listed, piece = bytes(self._head[LENGTH_BYTES:end]), bytes(self._head[end:])
            self._head.clear()
            changes = read_changes(listed, brought=self._brought, bytes_max=self._bytes_max)
            self._files = self._announce(changes)
            await self._begin_next()
        while piece:
            if not self._left:
                raise DishonestGuestError("it sent more than it listed")
            part, piece = piece[: self._left], piece[self._left :]
            if not self._is_dropped:
                await self._writer.write(part)
            self._left -= len(part)
            if not self._left:
                await self._begin_next()

    def check_complete(self) -> None:
        """Raises DishonestGuestError unless all that was listed has come."""
        if self._files is None or self._files or self._left:
            raise DishonestGuestError("it sent less than it listed")

    def _announce(self, changes: Changes) -> list[Listed]:
        """Everything but files goes to the writer; these are returned, the first one last."""
        for path in changes.removed:
            if path not in self._kept:
                self._writer.remove(path)
                self.count += 1
        for one in changes.put:
            if one.kind != "file" and self._is_refused(one):
                self.skipped += 1
            elif one.kind == "folder":
                self._writer.folder(one.path, mode=one.mode, modified_ns=one.modified_ns)
                self.count += 1
            elif one.kind == "link":
                self._writer.link(one.path, str(one.last), modified_ns=one.modified_ns)
                self.count += 1
        return [one for one in reversed(changes.put) if one.kind == "file"]

    def _is_refused(self, one: Listed) -> bool:
        """Whether it is where the host alone writes, or would take the place of what was not brought in."""
        return is_reserved(one.path) or (one.kind != "folder" and one.path in self._above)

    async def _begin_next(self) -> None:
        """Begin the next file that has content."""
        assert self._files is not None
        while self._files:
            one = self._files.pop()
            self._is_dropped = self._is_refused(one)
            if self._is_dropped:
                self.skipped += 1
            else:
                await self._writer.begin_file(one.path, size=one.size, mode=one.mode, modified_ns=one.modified_ns)
                self.count += 1
            self._left = one.size
            if self._left:
                return
