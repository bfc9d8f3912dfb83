"""The files of `/workspace` at each checkpoint.

Contents are copied when they differ from what is kept already, into files without a name on the sandbox's own disk, so
they count against its quota; only PID 1 has them open. Whether a file changed is told by size, times and inode.

Regular files are put back in place, so that a descriptor that was open then sees them; folders and links as they were.
PID 1 has no capability to pass over permissions: what the code has locked is unlocked for as long as it is read.
Pipes, sockets, owners and attributes are not kept.
"""

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

PLACE = "/workspace"
ENTRIES_MAX = 20_000
_COPY_BYTES = 1 << 30
_DEPTH_MAX = 64
_SHARE = 4  # of the disk, at most, for all that is kept


class NotKeptError(Exception):
    """The files cannot be kept; the message says why. `full`: they can once earlier states are dropped."""

    full = False


class FullError(NotKeptError):
    """What is kept already leaves no room."""

    full = True


class _Store:
    """The contents that one checkpoint added; gone with the last reference."""

    def __init__(self, place: str) -> None:
        self._place, self._fd = place, -1
        self.size = 0

    @property
    def fd(self) -> int:
        """Opened when it is first needed. Raises OSError."""
        if self._fd < 0:
            self._fd = os.open(self._place, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        return self._fd

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


class _Kept(NamedTuple):
    """One file, folder or link as it was."""

    mode: int
    mtime_ns: int = 0
    store: "_Store | None" = None
    at: int = 0
    size: int = 0
    target: str = ""

    @property
    def content(self) -> "tuple[object, int, int]":
        return self.store, self.at, self.size


State = dict[str, _Kept]
"""Path below the folder -> what was there."""


class SavedFiles:
    """The states of one folder, by the checkpoint's id."""

    def __init__(self, place: str = PLACE) -> None:
        self._place = place
        self._states: dict[int, State] = {}
        self._known: dict[str, tuple[tuple[int, ...], _Kept]] = {}  # marks of a file now -> its content
        self._unlocked: list[tuple[str, int]] = []  # folders, and the permissions to give back

    def save(self, checkpoint: int) -> None:
        """Keep the folder as it is. Raises NotKeptError; then nothing of it is kept."""
        store = _Store(self._place)
        try:
            state = self._read(store)
        except (OSError, NotKeptError) as error:
            for path in [path for path, (_, kept) in self._known.items() if kept.store is store]:
                del self._known[path]
            if isinstance(error, NotKeptError):
                raise
            raise NotKeptError(f"the files of {self._place} cannot be kept: {error.strerror}") from error
        finally:
            self._lock()
        self._states[checkpoint] = state
        for path in [path for path in self._known if path not in state]:
            del self._known[path]
        if len(self._states) > 1 and self._bytes() > self._room:  # what was copied is there for the next try
            self.drop(checkpoint)
            raise FullError(f"copies of files in {self._place} take a quarter of the disk")

    def _read(self, store: _Store) -> State:
        """What is there; contents that are new go into `store`. Raises NotKeptError, OSError."""
        state = State({"": _Kept(os.stat(self._place).st_mode)})
        for path, found in self._walk():
            if stat.S_ISREG(found.st_mode):
                known = self._known.get(path)
                if known is None or known[0] != marks_of(found):
                    kept, marks = self._copied(path, found, store)
                    self._known[path] = marks, kept
                else:
                    kept = known[1]
                state[path] = kept
            elif stat.S_ISDIR(found.st_mode):
                state[path] = _Kept(found.st_mode)
            elif stat.S_ISLNK(found.st_mode):
                state[path] = _Kept(found.st_mode, target=os.readlink(f"{self._place}/{path}"))
        return state

    def _unlock(self, path: str, found: os.stat_result) -> None:
        """Let the owner enter and change a folder, until `_lock`."""
        if stat.S_IMODE(found.st_mode) & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(f"{self._place}/{path}", stat.S_IMODE(found.st_mode) | stat.S_IRWXU)
            self._unlocked.append((path, stat.S_IMODE(found.st_mode)))

    def _lock(self) -> None:
        """Give unlocked folders their permissions back, what is deeper first."""
        while self._unlocked:
            path, mode = self._unlocked.pop()
            try:
                os.chmod(f"{self._place}/{path}", mode)
            except OSError:
                pass  # it is not there any more

    def _walk(self) -> "Iterator[tuple[str, os.stat_result]]":
        """Everything below the folder, a folder, unlocked, before what is in it. Raises NotKeptError, OSError."""
        self._unlock("", os.stat(self._place))
        waiting, count = [""], 0
        for below in waiting:  # grows meanwhile
            with os.scandir(f"{self._place}/{below}") as scan:
                found = sorted((entry.name, entry.stat(follow_symlinks=False)) for entry in scan)
            count += len(found)
            if count > ENTRIES_MAX or below.count("/") > _DEPTH_MAX:
                raise NotKeptError(f"{self._place} holds more than {ENTRIES_MAX:,} files, or too deep folders")
            for name, status in found:
                if stat.S_ISDIR(status.st_mode):
                    self._unlock(below + name, status)
                    waiting.append(f"{below}{name}/")
                yield below + name, status

    def _copied(self, path: str, found: os.stat_result, store: _Store) -> "tuple[_Kept, tuple[int, ...]]":
        if found.st_size + store.size > self._room:
            raise NotKeptError(
                f"more than {self._room:,} bytes of files in {self._place} changed, a quarter of the disk"
            )
        fd = open_to_read(f"{self._place}/{path}", found)
        try:
            at, size = store.size, _copy(fd, 0, store.fd, found.st_size)
            store.size += size
            return _Kept(found.st_mode, found.st_mtime_ns, store, at, size), marks_of(os.fstat(fd))
        finally:
            os.close(fd)

    @property
    def _room(self) -> int:
        disk = os.statvfs(self._place)
        return disk.f_blocks * disk.f_frsize // _SHARE

    def _bytes(self) -> int:
        stores = {kept.store for state in self._states.values() for kept in state.values()}
        return sum(store.size for store in stores if store is not None)

    def drop(self, checkpoint: int) -> None:
        """Forget a state."""
        self._states.pop(checkpoint, None)

    def has(self, checkpoint: int) -> bool:
        """Whether this state is kept."""
        return checkpoint in self._states

    def restore(self, checkpoint: int) -> str:
        """Make the folder what it was. Return what could not be put back, empty if all was."""
        try:
            return self._restore(self._states[checkpoint])
        finally:
            self._lock()

    def _restore(self, state: State) -> str:
        failed = self._remove_others(state)
        changed: list[str] = []
        for path, kept in state.items():  # room first: what is smaller, then what is larger
            if stat.S_ISREG(kept.mode) and not self._is_unchanged(path, kept):
                changed.append(path)
                try:
                    if os.lstat(f"{self._place}/{path}").st_size > kept.size:
                        os.truncate(f"{self._place}/{path}", kept.size)
                except OSError:
                    pass  # it is not there any more, or only for reading
        for path, kept in state.items():
            try:
                self._put_back(path, kept, is_changed=path in changed)
            except OSError as error:
                failed.append(f"{path} ({error.strerror})")
        self._unlocked = [(path, stat.S_IMODE(kept.mode)) for path, kept in state.items() if stat.S_ISDIR(kept.mode)]
        return ", ".join(failed[:5]) + (f" and {len(failed) - 5} more" if len(failed) > 5 else "")

    def _is_unchanged(self, path: str, kept: _Kept) -> bool:
        known = self._known.get(path)
        if known is None or known[1].content != kept.content or known[1].mode != kept.mode:
            return False
        try:
            return known[0] == marks_of(os.lstat(f"{self._place}/{path}"))
        except OSError:
            return False

    def _remove_others(self, state: State) -> "list[str]":
        failed: list[str] = []
        try:
            found = list(self._walk())
        except (OSError, NotKeptError) as error:
            return [str(error)]
        for path, status in reversed(found):
            kept = state.get(path)
            if kept is not None and stat.S_IFMT(kept.mode) == stat.S_IFMT(status.st_mode):
                continue
            whole = f"{self._place}/{path}"
            try:
                os.rmdir(whole) if stat.S_ISDIR(status.st_mode) else os.unlink(whole)
            except OSError as error:
                failed.append(f"{path} ({error.strerror})")
        return failed

    def _put_back(self, path: str, kept: _Kept, *, is_changed: bool) -> None:
        whole = f"{self._place}/{path}"
        if stat.S_ISDIR(kept.mode):
            if not os.path.isdir(whole):
                os.mkdir(whole)
            os.chmod(whole, stat.S_IMODE(kept.mode) | stat.S_IRWXU)  # until all is in it
        elif stat.S_ISLNK(kept.mode):
            if not os.path.islink(whole) or os.readlink(whole) != kept.target:
                if os.path.islink(whole):
                    os.unlink(whole)
                os.symlink(kept.target, whole)
        elif is_changed:
            self._write_back(whole, path, kept)

    def _write_back(self, whole: str, path: str, kept: _Kept) -> None:
        if os.path.lexists(whole) and not os.access(whole, os.W_OK):
            os.chmod(whole, 0o600)
        fd = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        try:
            if kept.store is not None:
                _copy(
                    kept.store.fd, kept.at, fd, kept.size
                )  # over what is there: emptied first, it took a third longer
            os.ftruncate(fd, kept.size)
            os.fchmod(fd, stat.S_IMODE(kept.mode))
            os.utime(fd, ns=(kept.mtime_ns, kept.mtime_ns))
            self._known[path] = marks_of(os.fstat(fd)), kept
        finally:
            os.close(fd)


def open_to_read(whole: str, found: os.stat_result) -> int:
    """Open a file, also one that its owner may not read. Raises OSError."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(whole, flags)
    except PermissionError:
        os.chmod(whole, stat.S_IRUSR)
        try:
            return os.open(whole, flags)
        finally:
            os.chmod(whole, stat.S_IMODE(found.st_mode))


def marks_of(found: os.stat_result) -> "tuple[int, ...]":
    """What changes with a file."""
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_mode


def _copy(source: int, at: int, target: int, size: int) -> int:
    """Write `size` bytes of `source`, from `at`, where `target` stands. Return how many there were."""
    copied = 0
    while copied < size:
        count = os.sendfile(target, source, at + copied, min(size - copied, _COPY_BYTES))
        if not count:
            break
        copied += count
    return copied
