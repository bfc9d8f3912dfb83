"""Trees of files in which code may change anything between two system calls: looked at, read and written safely.

SECURITY: whatever is named is opened below a root by openat2, without a link and without leaving the root's mount. Only
regular files, folders and links are told apart, and files are read without waiting for a pipe. Blocks.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from moonpool.sandboxes.host_folders import FolderError
from moonpool.store.beneath import open_beneath, system_call

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

ENTRIES_MAX: Final = 20_000
"""Files and folders of a folder that is copied."""
BYTES_MAX: Final = 1024**3
CHUNK: Final = 1 << 20
_PATH_BYTES: Final = 4096
"""PATH_MAX, with the zero byte."""
_WHY_COPIED: Final = (
    ", and for root it is copied, since its file system has no id-mapped mounts; "
    "attach a smaller folder, or run Moonpool as the folder's owner"
)
_NR_RENAMEAT2: Final = {"x86_64": 316}.get(os.uname().machine, 276)
NO_REPLACE, _EXCHANGE = 1, 2
FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY


def rename(folder: int, old: str, new: str, flags: int) -> None:
    """Rename within a folder as renameat2 does. Raises OSError."""
    names = os.fsencode(old), os.fsencode(new)
    system_call(new, _NR_RENAMEAT2, folder, names[0], folder, names[1], ctypes.c_uint(flags))


class Entry(NamedTuple):
    """What is at a path. Equal as long as nobody changed it."""

    kind: int  # S_IFREG, S_IFDIR, S_IFLNK; 0: something that is not carried
    mode: int = 0
    size: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    target: str = ""  # of a link


class Tree(NamedTuple):
    """Entries by their paths below a root; and paths that cannot be carried, with the reason."""

    entries: dict[str, Entry]
    left: dict[str, str]


WITHHELD: Final = Entry(0)
HIDDEN_FOLDER: Final = Entry(0, mode=1)


def entry_of(found: os.stat_result, folder: int, name: str) -> Entry:
    """The entry of what was found; a link is read in `folder`. Raises OSError."""
    kind, mode = stat.S_IFMT(found.st_mode), found.st_mode & 0o777
    if kind == stat.S_IFREG:
        return Entry(kind, mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    if kind == stat.S_IFDIR:
        return Entry(kind, mode)
    return Entry(kind, target=os.readlink(name, dir_fd=folder)) if kind == stat.S_IFLNK else WITHHELD


def entry_at(folder: int, name: str) -> Entry | None:
    """What has this name now. Raises OSError."""
    try:
        return entry_of(os.stat(name, dir_fd=folder, follow_symlinks=False), folder, name)
    except FileNotFoundError:
        return None


class ChangedError(Exception):
    """Somebody changed this since it was looked at."""


@contextmanager
def opened(fd: int) -> Generator[int]:
    """Close it in the end."""
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def reading(root: int, path: str) -> Generator[int]:
    """A regular file, to be read. Raises ChangedError for whatever else is there, OSError."""
    with opened(open_beneath(root, path, os.O_RDONLY | os.O_NONBLOCK)) as fd:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ChangedError
        yield fd


def split(path: str) -> tuple[str, str]:
    """The folder it is in, and its name."""
    above, _, name = path.rpartition("/")
    return above, name


def _rows(folder: int, count_max: int) -> list[tuple[str, os.stat_result]]:
    """What is in a folder. Raises FolderError when it is more."""
    rows: list[tuple[str, os.stat_result]] = []
    with os.scandir(folder) as scan:
        for one in scan:
            if len(rows) >= count_max:
                raise FolderError(f"it holds more than {ENTRIES_MAX:,} files and folders{_WHY_COPIED}")
            with suppress(FileNotFoundError):
                rows.append((one.name, one.stat(follow_symlinks=False)))
    return rows


def walk(
    root: int,
    look: Callable[[str, os.stat_result, int], Entry | None],
    enter: Callable[[str, set[str]], None],
    *,
    not_entered: Entry | None,
) -> Tree:
    """All that `look` finds worth it. Raises FolderError for too much, OSError."""
    found: dict[str, Entry] = {}
    left: dict[str, str] = {}
    waiting = [""]
    while waiting:
        above = waiting.pop()
        try:
            folder = open_beneath(root, above, FOLDER)
        except OSError as error:  # replaced just now, or mounted over
            if not above or error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV}:
                raise
            del found[above]
            if not_entered is not None:
                found[above] = not_entered
            continue
        with opened(folder):
            rows = _rows(folder, ENTRIES_MAX - len(found))
            enter(above, {name for name, _ in rows})
            for name, status in rows:
                path = f"{above}/{name}" if above else name
                if len(os.fsencode(path)) >= _PATH_BYTES:
                    left[path] = os.strerror(errno.ENAMETOOLONG)
                    found |= {} if not_entered is None else {path: not_entered}
                    continue
                with suppress(FileNotFoundError):
                    if (entry := look(path, status, folder)) is not None:
                        found[path] = entry
                        waiting += [path] if entry.kind == stat.S_IFDIR else []
    if sum(entry.size for entry in found.values()) > BYTES_MAX:
        raise FolderError(f"its files have more than {BYTES_MAX:,} bytes{_WHY_COPIED}")
    return Tree(found, left)


def make_folder(root: int, path: str, above: int, mode: int, owner: tuple[int, int], *, is_new: bool) -> None:
    """Make a folder in the opened one above it, or give it another mode. Raises OSError.

    SECURITY: somebody may have put another one in its place, which root would give to `owner`, or open to all.
    """
    if is_new:
        os.mkdir(path.rpartition("/")[2], 0o700, dir_fd=above)
    with opened(open_beneath(root, path, FOLDER)) as made:
        if os.fstat(made).st_uid not in {owner[0], os.geteuid() if is_new else owner[0]}:
            raise PermissionError(errno.EPERM, "the folder belongs to another user")
        _give(made, owner if is_new else None, mode)


def fill(made: int, source: int, owner: tuple[int, int]) -> Entry:
    """Copy content, mode and time into an empty file; how the source was before. Raises OSError."""
    found = os.fstat(source)
    left = BYTES_MAX
    while chunk := os.read(source, CHUNK):
        left -= len(chunk)
        if left < 0:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        view = memoryview(chunk)
        while view:
            view = view[os.write(made, view) :]
    _give(made, owner, found.st_mode & 0o777)
    os.utime(made, ns=(found.st_atime_ns, found.st_mtime_ns))
    return entry_of(found, -1, "")


def _give(fd: int, owner: tuple[int, int] | None, mode: int) -> None:
    """Set owner and mode, as far as the file system has them: FAT and some file systems of other machines do not."""
    found = os.fstat(fd)
    if owner is not None and (found.st_uid, found.st_gid) != owner:
        os.fchown(fd, *owner)
    with suppress(PermissionError):
        os.fchmod(fd, mode)


def place(folder: int, temporary: str, name: str, expected: Entry | None) -> None:
    """Give a complete file its name, if what is there is as expected. Raises ChangedError if it is not, OSError."""
    if entry_at(folder, name) != expected:
        raise ChangedError
    try:
        rename(folder, temporary, name, NO_REPLACE if expected is None else _EXCHANGE)
    except OSError as error:
        if error.errno == errno.EEXIST:
            raise ChangedError from None
        if error.errno not in {errno.EINVAL, errno.ENOSYS}:  # some file systems of other machines know neither
            raise
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    if expected is None:
        return
    before = entry_at(folder, temporary)
    if before is None or before._replace(ctime_ns=expected.ctime_ns) != expected:  # changed in the last moment
        rename(folder, temporary, name, _EXCHANGE)
        raise ChangedError
    os.unlink(temporary, dir_fd=folder)


def remove_tree(path: Path) -> None:
    """Remove a folder, however deep code made it; shutil.rmtree has a descriptor and a frame for each level."""
    subprocess.run(["/bin/rm", "-rf", "--one-file-system", "--", str(path)], check=False, stderr=subprocess.DEVNULL)


def read_fully(fd: int, count: int) -> bytes:
    """So many bytes, or what there is."""
    data = b""
    while len(data) < count and (chunk := os.read(fd, count - len(data))):
        data += chunk
    return data
