"""Mounts a host folder so that a sandbox's uid owns what the folder's owner owns. For root only; runs in the reaper.

An id-mapped mount shows the owner's files as the uid's, and what the uid writes is the owner's on disk; files of others
can only be read, if at all. The mounts are in a mount namespace of the process that becomes the outer sandbox, so none
is ever seen elsewhere, and all are gone with it.

SECURITY: nothing is resolved by name here; the host has opened the folder without following a link.
Standard library only, one thread.
"""

import ctypes
import os

_NR_OPEN_TREE, _NR_MOVE_MOUNT, _NR_MOUNT_SETATTR = 428, 429, 442  # the same on x86_64 and aarch64
_AT_FDCWD, _AT_EMPTY_PATH = -100, 0x1000
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = 1, 4
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV, _ATTR_IDMAP = 1, 2, 4, 0x0010_0000
_CLONE_NEWNS, _CLONE_NEWUSER = 0x0002_0000, 0x1000_0000
_MS_REC, _MS_PRIVATE = 1 << 14, 1 << 18
_libc = ctypes.CDLL(None, use_errno=True)


def mount_folders(folders: "list[list[str]]", uid: int) -> None:
    """Mount each of `folders` (descriptor, place, whether it is `rw`) for `uid`, and close its descriptor.

    Changes the calling process's mount namespace. Raises OSError, with the place, where the file system cannot do it.
    """
    trees: list[tuple[int, str]] = []
    for fd, place, how in folders:
        try:
            trees.append((_tree(int(fd), uid, read_only=how != "rw"), place))
        except OSError as error:
            raise OSError(error.errno, os.strerror(error.errno or 0), place) from None
        os.close(int(fd))
    _check(_libc.unshare(_CLONE_NEWNS))
    _check(_libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None))
    for tree, place in trees:
        _call(_NR_MOVE_MOUNT, tree, b"", _AT_FDCWD, place.encode(), _MOVE_MOUNT_F_EMPTY_PATH)
        os.close(tree)


def is_mappable(fd: int) -> bool:
    """Whether the file system of this folder can be mounted for another uid by this process."""
    try:
        os.close(_tree(fd, 1, read_only=True))
    except OSError:
        return False
    return True


def _tree(fd: int, uid: int, *, read_only: bool) -> int:
    """A mount of the folder behind `fd` that is nowhere yet. It shows no mount below the folder."""
    found = os.fstat(fd)
    tree = _call(_NR_OPEN_TREE, fd, b"", _AT_EMPTY_PATH | _OPEN_TREE_CLONE | os.O_CLOEXEC)
    namespace = _namespace((found.st_uid, found.st_gid), uid)
    flags = _ATTR_IDMAP | _ATTR_NOSUID | _ATTR_NODEV | (_ATTR_RDONLY if read_only else 0)
    attributes = (ctypes.c_uint64 * 4)(flags, 0, 0, namespace)
    try:
        _call(_NR_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, attributes, ctypes.sizeof(attributes))
    finally:
        os.close(namespace)
    return tree


def _namespace(owner: "tuple[int, int]", uid: int) -> int:
    """A user namespace, as a descriptor, in which the owner's uid and gid stand for `uid`."""
    made_read, made_write = os.pipe2(os.O_CLOEXEC)
    hold_read, hold_write = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            os.close(hold_write)
            _check(_libc.unshare(_CLONE_NEWUSER))
            os.write(made_write, b".")
            os.read(hold_read, 1)
        finally:
            os._exit(0)
    try:
        os.close(made_write)
        os.read(made_read, 1)
        for name, own in zip(("uid_map", "gid_map"), owner, strict=True):
            with open(f"/proc/{child}/{name}", "w", encoding="ascii") as file:  # noqa: PTH123  no pathlib in the reaper
                file.write(f"{own} {uid} 1")
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        for fd in (made_read, hold_read, hold_write):
            os.close(fd)
        os.waitpid(child, 0)


def _call(number: int, *arguments: object) -> int:
    return _check(_libc.syscall(ctypes.c_long(number), *arguments))


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
