"""A folder as a tar stream (POSIX pax), made while it is sent: nothing is stored, so a full quota does not matter.

Regular files, folders, links that stay inside and hard links among the files go in. Pipes, sockets, links that lead
elsewhere and folders that cannot be read are left out and counted. Owner, setuid bits and names of users do not go in;
names are in order, so the same files give the same bytes.

RULE: every archive made here can be unpacked by `unpacking` and by the host's strict reader.
"""

import os
import stat
import tarfile
from collections.abc import Iterator

from moonpool_guest.files.exchange import Exchange
from moonpool_guest.files.places import located, open_beneath, open_regular
from moonpool_guest.files.refusals import RefusedError
from moonpool_guest.files.walking import Entry, checked_walk
from moonpool_wire.filenames import link_stays_inside
from moonpool_wire.limits import ARCHIVE_ENTRIES_MAX, FILE_PIECE_BYTES_MAX

_BLOCK = tarfile.BLOCKSIZE


def archive(exchange: Exchange) -> None:
    """Send a folder's content, or one file, as a tar stream."""
    with located(str(exchange.head["path"])) as place:
        fd = open_beneath(place.root, place.below, os.O_PATH)
        try:
            state = os.fstat(fd)
        finally:
            os.close(fd)
        is_folder = stat.S_ISDIR(state.st_mode)
        if not is_folder and not stat.S_ISREG(state.st_mode):
            raise RefusedError("not_regular", "it is neither a file nor a folder")
        top = open_beneath(place.root, place.below if is_folder else place.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            packer = _Packer(top)
            unreadable: list[str] = []
            entries = (
                checked_walk(top, ARCHIVE_ENTRIES_MAX, unreadable) if is_folder else iter([Entry(place.name, state)])
            )
            exchange.say("file_opened", size=0)
            exchange.send_all(packer.stream(entries))
        finally:
            os.close(top)
    exchange.done(entries=packer.packed, skipped=packer.skipped + len(unreadable))


class _Packer:
    """Turns entries into the bytes of a tar file."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._links: dict[tuple[int, int], str] = {}  # files with several names -> the name that went in first
        self.packed = self.skipped = 0

    def stream(self, entries: "Iterator[Entry]") -> "Iterator[bytes]":
        """All bytes, the end mark included."""
        for entry in entries:
            if stat.S_ISREG(entry.state.st_mode):
                yield from self._file(entry)
            elif stat.S_ISDIR(entry.state.st_mode):
                yield self._header(entry.path, entry.state, tarfile.DIRTYPE)
            elif stat.S_ISLNK(entry.state.st_mode) and (target := self._inner_target(entry.path)) is not None:
                yield self._header(entry.path, entry.state, tarfile.SYMTYPE, target=target)
            else:
                self.skipped += 1
        yield bytes(2 * _BLOCK)

    def _file(self, entry: Entry) -> "Iterator[bytes]":
        try:
            fd, state = open_regular(self._top, entry.path)
        except (PermissionError, RefusedError):
            self.skipped += 1
            return
        try:
            identity = (state.st_dev, state.st_ino)
            if state.st_nlink > 1 and (first := self._links.setdefault(identity, entry.path)) != entry.path:
                yield self._header(entry.path, state, tarfile.LNKTYPE, target=first)
                return
            yield self._header(entry.path, state, tarfile.REGTYPE, size=state.st_size)
            yield from _exactly(fd, state.st_size)
        finally:
            os.close(fd)

    def _header(self, path: str, state: os.stat_result, kind: bytes, *, size: int = 0, target: str = "") -> bytes:
        self.packed += 1
        member = tarfile.TarInfo(path)
        member.type, member.size, member.linkname = kind, size, target
        member.mode = stat.S_IMODE(state.st_mode) & 0o777
        member.mtime = max(0, int(state.st_mtime))
        return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")

    def _inner_target(self, path: str) -> "str | None":
        """Where a link points, if that can be inside the archive."""
        folder, _, name = path.rpartition("/")
        try:
            fd = open_beneath(self._top, folder or ".", os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return None
        try:
            target = os.readlink(name, dir_fd=fd)
        except OSError:
            return None
        finally:
            os.close(fd)
        return target if link_stays_inside(tuple(path.split("/")), target) else None


def _exactly(fd: int, size: int) -> "Iterator[bytes]":
    """`size` bytes and the padding. What a growing file has beyond is left out; one that shrinks ends the archive."""
    left = size
    while left:
        chunk = os.read(fd, min(left, FILE_PIECE_BYTES_MAX))
        if not chunk:
            raise RefusedError("changed", "a file became shorter while it was read")
        left -= len(chunk)
        yield chunk
    yield bytes(-size % _BLOCK)
