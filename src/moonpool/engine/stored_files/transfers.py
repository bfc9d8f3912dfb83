"""One tree into a sandbox, and its changes out. The stream is that of any file (`moonpool.engine.files.streams`).

SECURITY: a guest that lies about anything is ended; a change counts only once all of it has come and its digest is
right, and it is made of nothing but bytes that it sent.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.engine.files.exchange import exchanging
from moonpool.engine.files.records import TransferTally
from moonpool.engine.files.streams import receive_all, send_all
from moonpool.engine.stored_files.listing import LENGTH_BYTES, DishonestGuestError, encoded, read_changes
from moonpool.engine.stored_files.model import StoredFilesError, with_folders_above
from moonpool.sandboxes.messages import TreeChanges, TreeFill
from moonpool.sandboxes.shielding import in_thread
from moonpool_wire.limits import FILE_PIECE_BYTES_MAX, TREE_LIST_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Sequence

    from moonpool.engine.stored_files.listing import Changes, Listed
    from moonpool.engine.stored_files.model import Mount
    from moonpool.features.storage.base import Snapshot, TreeWriter
    from moonpool.features.storage.model import Entry
    from moonpool.sandboxes.base import Sandbox

_SHORT_BYTES: Final = 65_536
"""A list up to this length is read at once, a longer one in a thread."""
_AT_ONCE: Final = 200
"""Entries that are handled before others have their turn."""
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
    mount: Mount,
    writer: TreeWriter,
    *,
    brought: Collection[str],
    hidden: Collection[str],
    bytes_max: int,
    timeout_s: float,
) -> Taken:
    """Give `writer` what changed in the folder of `mount`, to which `brought` was brought and `hidden` was not.

    Raises FileTransferError, and what `TreeWriter` raises.
    """
    most = bytes_max + TREE_LIST_BYTES_MAX + LENGTH_BYTES
    opening = TreeChanges(order=next(_ORDERS), path=mount.place, bytes_max=most)
    sink = _ChangeSink(mount, writer, brought, hidden, bytes_max)
    async with exchanging(sandbox, opening, timeout_s=timeout_s) as exchange:
        try:
            done = await receive_all(exchange, sink.take, TransferTally(), bytes_max=most)
            sink.check_complete()
        except DishonestGuestError as lie:
            raise exchange.violate(str(lie)) from None
    return Taken(count=sink.count, skipped=min(done.skipped, most) + sink.skipped)


class _ChangeSink:
    """Cuts the stream of a guest into its list and the files of it, and hands them to a writer."""

    def __init__(
        self, mount: Mount, writer: TreeWriter, brought: Collection[str], hidden: Collection[str], bytes_max: int
    ) -> None:
        self._mount, self._writer, self._brought, self._bytes_max = mount, writer, brought, bytes_max
        self._kept = with_folders_above(hidden)  # what was not brought in stays, and so what is above it
        self._above = self._kept.difference(hidden)
        self._head = bytearray()
        self._files: list[Listed] | None = None  # that are still to come, the next one last; None: no list yet
        self._left = 0  # bytes of the one that comes
        self._is_dropped = False  # the one that comes
        self.count = self.skipped = self._handled = 0

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
            self._files = await self._announce(await self._read(listed))
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

    async def _read(self, listed: bytes) -> Changes:
        """SECURITY: a guest chooses how much work its list is, and others are served meanwhile."""
        read = functools.partial(read_changes, listed, brought=self._brought, bytes_max=self._bytes_max)
        return read() if len(listed) < _SHORT_BYTES else await in_thread(read)

    async def _pace(self) -> None:
        """Let others be served between many entries."""
        self._handled += 1
        if self._handled % _AT_ONCE == 0:
            await asyncio.sleep(0)

    async def _announce(self, changes: Changes) -> list[Listed]:
        """Everything but files goes to the writer; these are returned, the first one last."""
        for path in changes.removed:
            await self._pace()
            if path not in self._kept and self._mount.holds(path):
                self._writer.remove(path)
                self.count += 1
        for one in changes.put:
            await self._pace()
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
        """Whether it is where code may not write, or would take the place of what was not brought in."""
        if one.kind == "folder":
            return not self._mount.shows(one.path)
        return not self._mount.holds(one.path) or one.path in self._above

    async def _begin_next(self) -> None:
        """Begin the next file that has content."""
        assert self._files is not None
        while self._files:
            one = self._files.pop()
            await self._pace()
            self._is_dropped = self._is_refused(one)
            if self._is_dropped:
                self.skipped += 1
            else:
                await self._writer.begin_file(one.path, size=one.size, mode=one.mode, modified_ns=one.modified_ns)
                self.count += 1
            self._left = one.size
            if self._left:
                return
