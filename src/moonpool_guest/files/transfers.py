"""One file in, one file out, and folders to put them in.

INVARIANT: a file that is being received has no name. It gets one when it is complete and its digest is right; if the
order is given up, or the sandbox dies, the Linux kernel frees it.
"""

import os
import stat
from collections.abc import Iterator

from moonpool_guest.files.exchange import Exchange
from moonpool_guest.files.places import Place, fresh_name, located, open_regular
from moonpool_guest.files.refusals import RefusedError
from moonpool_wire.limits import FILE_PIECE_BYTES_MAX

_MODES = 0o777  # no setuid, setgid or sticky bit comes in


def put(exchange: Exchange) -> None:
    """Receive a file."""
    head = exchange.head
    with located(str(head["path"])) as place:
        _check_target(place, replace=bool(head["replace"]))
        fd = nameless_file(place.root)
        try:
            for piece in exchange.pieces():
                write_all(fd, piece)
            os.fchmod(fd, int(head["mode"]) & _MODES)
            folder = place.open_folder(place.folder, make=True)
            try:
                publish(fd, folder, place.name, replace=bool(head["replace"]))
            finally:
                os.close(folder)
        finally:
            os.close(fd)
    exchange.done(entries=1)


def _check_target(place: Place, *, replace: bool) -> None:
    """Say early what `publish` would say after everything was sent."""
    if place.is_root:
        raise RefusedError("not_regular", "it is a folder")
    try:
        folder = place.open_folder(place.folder)
    except FileNotFoundError:
        return
    try:
        mode = os.stat(place.name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    finally:
        os.close(folder)
    if stat.S_ISDIR(mode):
        raise RefusedError("not_regular", "it is a folder")
    if not replace:
        raise RefusedError("exists", "it is there already")


def nameless_file(folder: int) -> int:
    """A new file without a name on the file system of `folder`."""
    return os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=folder)


def publish(fd: int, folder: int, name: str, *, replace: bool) -> None:
    """Give a nameless file its name in one step. What stood there is replaced or nothing happens."""
    source = f"/proc/self/fd/{fd}"
    if not replace:
        os.link(source, name, dst_dir_fd=folder, follow_symlinks=True)
        return
    passing = fresh_name()
    os.link(source, passing, dst_dir_fd=folder, follow_symlinks=True)
    try:
        os.rename(passing, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(passing, dir_fd=folder)
        raise


def write_all(fd: int, content: bytes) -> None:
    """Write everything. A full quota raises OSError."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]


def get(exchange: Exchange) -> None:
    """Send a file."""
    bytes_max = int(exchange.head["bytes_max"])
    with located(str(exchange.head["path"])) as place:
        fd, state = open_regular(place.root, place.below)
        try:
            if state.st_size > bytes_max:  # a sparse file may say anything; nothing of it is read
                raise RefusedError("too_large", f"it is {state.st_size:,} bytes; at most {bytes_max:,} are sent")
            exchange.say("file_opened", size=state.st_size)
            exchange.send_all(_contents(fd))
        finally:
            os.close(fd)
    exchange.done(entries=1)


def _contents(fd: int) -> "Iterator[bytes]":
    """All bytes of one open file. It may grow meanwhile; `send_all` counts."""
    while chunk := os.read(fd, FILE_PIECE_BYTES_MAX):
        yield chunk


def make_folder(exchange: Exchange) -> None:
    """Make a folder and those above it. One that is there already is fine."""
    with located(str(exchange.head["path"])) as place:
        os.close(place.open_folder(place.below, make=True))
    exchange.done(entries=1)
