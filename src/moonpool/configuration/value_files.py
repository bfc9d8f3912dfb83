"""`${file:PATH}`: a value that lies in a file of its own, as container platforms hand out secrets.

SECURITY: the path stands in the operator's configuration, never in what a guest or a server says. A file that others
could write is refused: they would choose a credential, or what is redacted. Errors tell the path, never the content.
"""

from __future__ import annotations

import os
import stat
from typing import Final

VALUE_BYTES_MAX: Final = 64 * 1024


class ValueFileError(Exception):
    """Why a file gives no value, as the end of a sentence that names the file."""


def read_value_file(path: str) -> str:
    """The text of the file at `path` (absolute, or below `~/`), without the line end behind it.

    Raises ValueFileError.
    """
    expanded = os.path.expanduser(path)  # noqa: PTH111  text in, text out
    if not os.path.isabs(expanded) or "\0" in expanded:  # noqa: PTH117
        raise ValueFileError("is no absolute path; begin with / or ~/")
    try:
        descriptor = os.open(expanded, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not hold anybody up
    except OSError as exc:
        raise ValueFileError(f"cannot be read: {exc.strerror or exc}") from None
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        os.close(descriptor)  # of a folder `fdopen` makes no file, and says so in words of its own
        raise ValueFileError("is no regular file; name the file that holds the value alone")
    with os.fdopen(descriptor, "rb") as file:
        if state.st_mode & 0o022 or state.st_uid not in {0, os.geteuid()}:
            raise ValueFileError("could be changed by other users; make it yours or root's, and run chmod go-w on it")
        try:
            content = file.read(VALUE_BYTES_MAX + 1)
        except OSError as exc:
            raise ValueFileError(f"cannot be read: {exc.strerror or exc}") from None
    if len(content) > VALUE_BYTES_MAX:
        raise ValueFileError(f"is larger than {VALUE_BYTES_MAX // 1024} KiB, which no value is")
    try:
        value = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueFileError("is not UTF-8") from None
    value = value.removesuffix("\n").removesuffix("\r")
    if not value:
        raise ValueFileError("is empty")
    return value
