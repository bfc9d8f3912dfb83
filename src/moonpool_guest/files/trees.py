"""A stored tree into a folder of the sandbox before code, and what code changed of it out again.

Both travel as one stream: four bytes (length of the list), the list as JSON, and then the contents of its files, in
order, without anything between. An entry is `[kind, path, mode, modified_ns, size or target]`.

Whether something changed is told by size, times, inode and mode, as they were when it was brought in. A change of a
file always sets its ctime, which code cannot choose; so the clock that sets it has moved on before code begins.

What is left out of the changes: links to `/wrappers`, which the host puts there; and, counted as skipped, pipes,
sockets, devices, and names that are no UTF-8, too long or too deep.
"""

import json
import os
import stat
import time
from collections.abc import Iterator
from typing import Any

from moonpool_guest.checkpoints.saved import marks_of, open_to_read
from moonpool_guest.files.exchange import Exchange
from moonpool_guest.files.places import TEMPORARY
from moonpool_guest.files.processes import end_others, flush_open_files
from moonpool_guest.files.refusals import RefusedError
from moonpool_wire.limits import FILE_DEPTH_MAX, FILE_PIECE_BYTES_MAX, TREE_ENTRIES_MAX, TREE_PATH_BYTES_MAX

_LENGTH_BYTES = 4
_OWN_LINKS = "/wrappers/"
_CLOCK_S_MAX = 0.02  # a tick is at most 10 ms
_Known = tuple[object, ...]
_filled: "dict[str, dict[str, _Known]]" = {}  # place -> path below it -> what it was when it was brought in


def fill(exchange: Exchange) -> None:
    """Make a folder hold what the host sends. Raises RefusedError, OSError."""
    place = str(exchange.head["path"])
    os.makedirs(place, exist_ok=True)
    stream = _Stream(exchange)
    entries: list[list[Any]] = json.loads(stream.take(int.from_bytes(stream.take(_LENGTH_BYTES), "big")))
    known = _filled[place] = dict[str, _Known]()
    _clear_own_links(place, entries)
    folders: list[list[Any]] = []
    for entry in entries:
        kind, path, mode, modified_ns, last = entry
        whole = f"{place}/{path}"
        if kind == "folder":
            os.makedirs(whole, 0o700, exist_ok=True)
            folders.append(entry)
        elif kind == "link":
            _link(whole, str(last), int(modified_ns))
            known[path] = ("link", last)
        else:
            known[path] = _write(whole, int(mode), int(modified_ns), int(last), stream)
    stream.end()
    for _, path, mode, modified_ns, _ in reversed(folders):  # what is deeper first; now nothing is made in them
        whole = f"{place}/{path}"
        os.utime(whole, ns=(modified_ns, modified_ns))
        os.chmod(whole, mode)
        known[path] = _folder_marks(os.lstat(whole))
    for path in _implied([str(entry[1]) for entry in entries]):
        known.setdefault(path, _folder_marks(os.lstat(f"{place}/{path}")))
    _let_clock_move_on()
    exchange.done(entries=len(entries))


def _implied(paths: "list[str]") -> "set[str]":
    """The folders above them."""
    above: set[str] = set()
    for path in paths:
        while (path := path.rpartition("/")[0]) and path not in above:
            above.add(path)
    return above


def _clear_own_links(place: str, entries: "list[list[Any]]") -> None:
    """What is brought in comes before links of ours that have its name."""
    for top in {str(entry[1]).partition("/")[0] for entry in entries}:
        if os.path.islink(f"{place}/{top}"):
            os.unlink(f"{place}/{top}")


def _link(whole: str, target: str, modified_ns: int) -> None:
    try:
        os.symlink(target, whole)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        os.symlink(target, whole)
    os.utime(whole, ns=(modified_ns, modified_ns), follow_symlinks=False)


def _write(whole: str, mode: int, modified_ns: int, size: int, stream: "_Stream") -> _Known:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(whole, flags, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        fd = os.open(whole, flags, 0o600)
    try:
        stream.write(fd, size)
        os.fchmod(fd, mode)
        os.utime(fd, ns=(modified_ns, modified_ns))
        return marks_of(os.fstat(fd))
    finally:
        os.close(fd)


def _folder_marks(found: os.stat_result) -> _Known:
    return ("folder", stat.S_IMODE(found.st_mode), found.st_mtime_ns)


def _let_clock_move_on() -> None:
    """Wait until what code changes cannot have the ctime of what was brought in. Files have a coarse clock."""
    began, until = _coarse_ns(), time.monotonic() + _CLOCK_S_MAX
    while _coarse_ns() == began and time.monotonic() < until:
        time.sleep(0.0002)


def _coarse_ns() -> int:
    return time.clock_gettime_ns(5)  # CLOCK_REALTIME_COARSE


class _Stream:
    """What the host sends, in parts of any size."""

    def __init__(self, exchange: Exchange) -> None:
        self._pieces = exchange.pieces()
        self._rest = memoryview(b"")

    def _more(self) -> None:
        if not self._rest:
            try:
                self._rest = memoryview(next(self._pieces))
            except StopIteration:
                raise RefusedError("failed", "less was sent than was listed") from None

    def take(self, size: int) -> bytes:
        taken = bytearray()
        while len(taken) < size:
            self._more()
            part = self._rest[: size - len(taken)]
            taken += part
            self._rest = self._rest[len(part) :]
        return bytes(taken)

    def write(self, fd: int, size: int) -> None:
        while size:
            self._more()
            written = os.write(fd, self._rest[:size])
            self._rest = self._rest[written:]
            size -= written

    def end(self) -> None:
        """All was used; the digest of all is right."""
        if self._rest or next(self._pieces, None) is not None:
            raise RefusedError("failed", "more was sent than was listed")


def changes(exchange: Exchange) -> None:
    """End all other processes, then send what differs from what was brought in. Raises RefusedError, OSError."""
    place = str(exchange.head["path"])
    flush_open_files()
    end_others()
    known = _filled.get(place, {})
    look = _Look(place, known)
    try:
        look.walk()
        put = [row for path, row in look.rows.items() if known.get(path) != look.now[path]]
        gone = [path for path in known if path not in look.rows]
        listed = json.dumps({"put": put, "removed": gone}, ensure_ascii=False).encode()
        exchange.say("file_opened", size=len(listed))
        exchange.send_all(_sent(listed, place, put))
    finally:
        look.lock()
    exchange.done(entries=len(put), skipped=look.skipped)


def _sent(listed: bytes, place: str, put: "list[list[Any]]") -> "Iterator[bytes]":
    yield len(listed).to_bytes(_LENGTH_BYTES, "big") + listed
    for kind, path, _, _, size in put:
        if kind == "file" and size:
            yield from _contents(f"{place}/{path}", int(size))


def _contents(whole: str, size: int) -> "Iterator[bytes]":
    """The first `size` bytes of a file, as it was listed. A thread of the code may still write to it."""
    changed = RefusedError("changed", "code that runs still has changed a file meanwhile")
    found = os.lstat(whole)
    if not stat.S_ISREG(found.st_mode):
        raise changed
    fd = open_to_read(whole, found)
    try:
        while size:
            chunk = os.read(fd, min(size, FILE_PIECE_BYTES_MAX))
            if not chunk:
                raise changed
            size -= len(chunk)
            yield chunk
    finally:
        os.close(fd)


class _Look:
    """One look at all that is in a folder. Folders that code has locked are unlocked until `lock`."""

    def __init__(self, place: str, known: "dict[str, _Known]") -> None:
        self._place, self._known = place, known
        self.rows: dict[str, list[Any]] = {}
        self.now: dict[str, _Known] = {}
        self.skipped = 0
        self._unlocked: list[tuple[str, int]] = []

    def walk(self) -> None:
        waiting = [""] if os.path.isdir(self._place) else []
        if waiting:
            self._unlock(self._place, os.lstat(self._place).st_mode)
        for below in waiting:  # grows meanwhile
            with os.scandir(f"{self._place}/{below}") as scan:
                found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in scan]
            for name, state in found:
                path = below + name
                if name.startswith(TEMPORARY) and path not in self._known:
                    continue  # of a transfer that was given up; what was brought in has its name from somebody else
                if not _is_usable(path):
                    self.skipped += 1
                elif stat.S_ISDIR(state.st_mode):
                    self._note(path, "folder", state, 0, _folder_marks(state))
                    self._unlock(f"{self._place}/{path}", state.st_mode)
                    waiting.append(f"{path}/")
                else:
                    self._note_other(path, state)
                if len(self.rows) > TREE_ENTRIES_MAX:
                    raise RefusedError("too_many", f"there are more than {TREE_ENTRIES_MAX:,} files and folders")

    def _note_other(self, path: str, state: os.stat_result) -> None:
        if stat.S_ISREG(state.st_mode):
            self._note(path, "file", state, state.st_size, marks_of(state))
        elif stat.S_ISLNK(state.st_mode):
            target = os.readlink(f"{self._place}/{path}")
            if not _is_text(target):
                self.skipped += 1
            elif not target.startswith(_OWN_LINKS):
                self._note(path, "link", state, target, ("link", target))
        else:
            self.skipped += 1

    def _note(self, path: str, kind: str, state: os.stat_result, last: object, now: _Known) -> None:
        self.rows[path] = [kind, path, stat.S_IMODE(state.st_mode) & 0o777, max(0, state.st_mtime_ns), last]
        self.now[path] = now

    def _unlock(self, whole: str, mode: int) -> None:
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(whole, stat.S_IMODE(mode) | stat.S_IRWXU)
            self._unlocked.append((whole, stat.S_IMODE(mode)))

    def lock(self) -> None:
        """Give unlocked folders their permissions back, what is deeper first."""
        while self._unlocked:
            whole, mode = self._unlocked.pop()
            try:
                os.chmod(whole, mode)
            except OSError:
                pass  # it is not there any more


def _is_usable(path: str) -> bool:
    return _is_text(path) and len(os.fsencode(path)) <= TREE_PATH_BYTES_MAX and path.count("/") < FILE_DEPTH_MAX


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
