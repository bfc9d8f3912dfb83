"""Why an order is not carried out: a code that the host knows, and a detail for people."""

import errno

_BY_ERRNO = {
    errno.ENOENT: ("missing", "there is no such file"),
    errno.ENOTDIR: ("not_a_folder", "a part of the path is not a folder"),
    errno.ELOOP: ("link", "a part of the path is a symbolic link, which is never followed"),
    errno.EXDEV: ("outside", "the path leads elsewhere"),
    errno.EEXIST: ("exists", "it is there already"),
    errno.EISDIR: ("not_regular", "it is a folder"),
    errno.ENXIO: ("not_regular", "it is a socket or a pipe"),
    errno.ENOSPC: ("quota", "the sandbox's disk quota is full"),
    errno.EDQUOT: ("quota", "the sandbox's disk quota is full"),
    errno.EFBIG: ("too_large_there", "no file in the sandbox may be so large"),
    errno.EACCES: ("inaccessible", "its permissions forbid it"),
    errno.EPERM: ("inaccessible", "its permissions forbid it"),
    errno.EROFS: ("inaccessible", "it cannot be changed"),
    errno.ENAMETOOLONG: ("name", "the name is too long"),
    errno.ENOTEMPTY: ("not_empty", "the folder is not empty"),
    errno.EMFILE: ("busy", "the code in the sandbox holds every descriptor"),
    errno.ENFILE: ("busy", "no descriptor is left"),
}


class RefusedError(Exception):
    """The order cannot be carried out."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def refusal_of(error: BaseException) -> RefusedError:
    """What to tell the host about any exception."""
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, OSError) and error.errno in _BY_ERRNO:
        return RefusedError(*_BY_ERRNO[error.errno])
    if isinstance(error, MemoryError):
        return RefusedError("memory", "the sandbox has not enough memory for it")
    return RefusedError("failed", f"{type(error).__name__}: {error}"[:500])
