"""A tar or zip becomes a folder: whole, or not at all, and nothing in it may surprise.

The archive is unpacked beside its place and moved there when all of it was accepted and its digest was right. A tar is
read as it arrives; a zip, whose list stands at its end, is kept in a nameless file first. Both are on the sandbox's own
quota.

Refused, never repaired: names that are absolute, hold `..`, come twice or are too long or deep; links that lead out;
devices and pipes; sparse and encrypted members; more entries or bytes than may be, or than such an archive can honestly
expand to. Setuid bits are cleared.
"""

import errno
import os
import shutil
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import closing

from moonpool_guest.files.archives import UNREADABLE, Content, Member, read_tar, read_zip
from moonpool_guest.files.exchange import Exchange
from moonpool_guest.files.places import Place, fresh_name, located, open_beneath
from moonpool_guest.files.refusals import RefusedError
from moonpool_guest.files.transfers import nameless_file, write_all
from moonpool_guest.files.walking import checked_walk
from moonpool_wire.filenames import NameFault, link_stays_inside, member_parts
from moonpool_wire.limits import ARCHIVE_ENTRIES_MAX, ARCHIVE_RATIO_FREE_BYTES, ARCHIVE_RATIO_MAX

_MISFITS = frozenset({errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENOENT, errno.ELOOP})
_FOLDER = os.O_RDONLY | os.O_DIRECTORY


def unpack(exchange: Exchange) -> None:
    """Receive an archive and unpack it."""
    head = exchange.head
    with located(str(head["path"])) as place:
        passing = fresh_name()
        os.mkdir(passing, 0o700, dir_fd=place.root)
        try:
            top = open_beneath(place.root, passing, _FOLDER)
            try:
                target = _Target(top, exchange, bytes_max=int(head["expanded_bytes_max"]))
                with closing(_members(exchange, place, zipped=head["form"] == "zip")) as members:
                    target.take_all(members)
                target.check_links()
                move_into(top, place, replace=bool(head["replace"]))
            finally:
                os.close(top)
        finally:
            shutil.rmtree(passing, ignore_errors=True, dir_fd=place.root)
    exchange.done(entries=target.entries)


def _members(exchange: Exchange, place: Place, *, zipped: bool) -> "Generator[tuple[Member, Content]]":
    if not zipped:
        yield from read_tar(exchange.pieces())
        return
    spool = nameless_file(place.root)
    try:
        for piece in exchange.pieces():
            write_all(spool, piece)
        yield from read_zip(spool)
    finally:
        os.close(spool)


class _Target:
    """The folder that is being filled, and what went into it so far."""

    def __init__(self, top: int, exchange: Exchange, *, bytes_max: int) -> None:
        self._top, self._exchange, self._bytes_max = top, exchange, bytes_max
        self._kinds: dict[tuple[str, ...], str] = {}  # everything made; "implied" is a folder nobody named yet
        self._folders: list[tuple[tuple[str, ...], Member]] = []
        self._expanded = 0
        self.entries = 0

    def take_all(self, members: "Iterator[tuple[Member, Content]]") -> None:
        for member, content in members:
            self.entries += 1
            if self.entries > ARCHIVE_ENTRIES_MAX:
                raise RefusedError("archive", f"it has more than {ARCHIVE_ENTRIES_MAX:,} entries")
            try:
                self._take(member, content)
            except NameFault as fault:
                raise RefusedError("archive", f"{_shown(member.name)}: {fault}") from None
            except UNREADABLE as error:
                raise RefusedError("archive", f"{_shown(member.name)} cannot be read: {error}") from None
            except OSError as error:
                if error.errno in _MISFITS:
                    raise RefusedError("archive", f"{_shown(member.name)} does not fit what came before it") from None
                raise
        for parts, member in reversed(self._folders):
            self._finish_folder(parts, member)

    def _take(self, member: Member, content: Content) -> None:
        parts = member_parts(member.name)
        if not parts:
            return  # "./", as `tar .` writes it
        if self._kinds.get(parts, "implied") != "implied":
            raise NameFault("it comes twice")
        make: dict[str, Callable[[tuple[str, ...], Member, Content], None]] = {
            "folder": self._folder, "file": self._file, "link": self._link, "hardlink": self._hardlink
        }  # fmt: skip
        make[member.kind](parts, member, content)
        self._kinds[parts] = member.kind

    def _folder(self, parts: "tuple[str, ...]", member: Member, _: Content) -> None:
        os.close(self._made(parts))
        self._folders.append((parts, member))

    def _file(self, parts: "tuple[str, ...]", member: Member, content: Content) -> None:
        folder = self._made(parts[:-1])
        try:
            fd = os.open(parts[-1], os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
            try:
                with closing(content()) as chunks:  # closed now: what it holds open is on the quota
                    for chunk in chunks:
                        self._count(len(chunk))
                        write_all(fd, chunk)
                os.fchmod(fd, member.mode & 0o777)
                os.utime(fd, (member.modified_s, member.modified_s))
            finally:
                os.close(fd)
        finally:
            os.close(folder)

    def _link(self, parts: "tuple[str, ...]", member: Member, _: Content) -> None:
        if not link_stays_inside(parts, member.target):
            raise NameFault("a link that leads out")
        folder = self._made(parts[:-1])
        try:
            os.symlink(member.target, parts[-1], dir_fd=folder)
            times = (member.modified_s, member.modified_s)
            os.utime(parts[-1], times, dir_fd=folder, follow_symlinks=False)
        finally:
            os.close(folder)

    def _hardlink(self, parts: "tuple[str, ...]", member: Member, _: Content) -> None:
        source = member_parts(member.target)
        if self._kinds.get(source) != "file":
            raise NameFault("a hard link to what is no file of this archive")
        above = open_beneath(self._top, "/".join(source[:-1]) or ".", _FOLDER)
        try:
            folder = self._made(parts[:-1])
            try:
                os.link(source[-1], parts[-1], src_dir_fd=above, dst_dir_fd=folder, follow_symlinks=False)
            finally:
                os.close(folder)
        finally:
            os.close(above)

    def _made(self, parts: "tuple[str, ...]") -> int:
        """A descriptor of the folder `parts`, made with those above it where it is missing."""
        for depth in range(1, len(parts) + 1):
            if parts[:depth] not in self._kinds:
                folder = open_beneath(self._top, "/".join(parts[: depth - 1]) or ".", _FOLDER)
                try:
                    os.mkdir(parts[depth - 1], 0o755, dir_fd=folder)
                finally:
                    os.close(folder)
                self._kinds[parts[:depth]] = "implied"
        return open_beneath(self._top, "/".join(parts) or ".", _FOLDER)

    def _count(self, size: int) -> None:
        """Bombs: what came out so far against what may, and against what came in."""
        self._expanded += size
        if self._expanded > self._bytes_max:
            raise RefusedError("archive", f"it expands to more than {self._bytes_max:,} bytes")
        if self._expanded > max(ARCHIVE_RATIO_FREE_BYTES, self._exchange.size * ARCHIVE_RATIO_MAX):
            raise RefusedError("archive", f"it expands to more than {ARCHIVE_RATIO_MAX} times its size")

    def _finish_folder(self, parts: "tuple[str, ...]", member: Member) -> None:
        """Mode and time, last: what is made in a folder changes its time."""
        folder = open_beneath(self._top, "/".join(parts), _FOLDER)
        try:
            os.fchmod(folder, member.mode & 0o777 | stat.S_IRWXU)
            os.utime(folder, (member.modified_s, member.modified_s))
        finally:
            os.close(folder)

    def check_links(self) -> None:
        """Links were judged as text; a chain of them can still lead out, which only following them shows."""
        top = os.path.realpath(f"/proc/self/fd/{self._top}")
        for parts, kind in self._kinds.items():
            if kind == "link" and not (os.path.realpath(os.path.join(top, *parts)) + "/").startswith(f"{top}/"):
                raise RefusedError("archive", f"{_shown('/'.join(parts))}: a link that leads out")


def move_into(top: int, place: Place, *, replace: bool) -> None:
    """Move what is in `top` into the place. Folders that are there already are filled; files only with `replace`.

    Everything is looked at before anything is moved.
    """
    target = place.open_folder(place.below, make=True)
    try:
        moves = list(_moves(top, target, replace=replace))
        for path in moves:
            above, _, name = path.rpartition("/")
            source = open_beneath(top, above or ".", _FOLDER)
            try:
                folder = open_beneath(target, above or ".", _FOLDER)
                try:
                    os.rename(name, name, src_dir_fd=source, dst_dir_fd=folder)
                finally:
                    os.close(folder)
            finally:
                os.close(source)
    finally:
        os.close(target)


def _moves(top: int, target: int, *, replace: bool) -> "Iterator[str]":
    """The paths to move: those whose folder is there and they are not, or, with `replace`, files over files."""
    settled: set[str] = set()
    for entry in checked_walk(top, 2 * ARCHIVE_ENTRIES_MAX, []):
        above = entry.path.rpartition("/")[0]
        if above in settled:
            if stat.S_ISDIR(entry.state.st_mode):
                settled.add(entry.path)
            continue  # comes along with its folder
        there = _mode_of(target, entry.path)
        if there is None:
            if stat.S_ISDIR(entry.state.st_mode):
                settled.add(entry.path)
            yield entry.path
        elif stat.S_ISDIR(entry.state.st_mode) != stat.S_ISDIR(there) or (not stat.S_ISDIR(there) and not replace):
            raise RefusedError("exists", f"{_shown(entry.path)} is there already")
        elif not stat.S_ISDIR(there):
            yield entry.path


def _mode_of(folder: int, path: str) -> "int | None":
    try:
        fd = open_beneath(folder, path.rpartition("/")[0] or ".", _FOLDER)
    except FileNotFoundError:
        return None
    try:
        return os.stat(path.rpartition("/")[2], dir_fd=fd, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    finally:
        os.close(fd)


def _shown(name: str) -> str:
    return repr(name[:200])
