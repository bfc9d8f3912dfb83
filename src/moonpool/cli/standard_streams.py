"""The three standard streams: what goes where, and what happens if one is closed.

RULE: stdout has only a command's answer. `claim_stdout` moves the real one to a private descriptor, so that stray
output of a library or child process goes to stderr.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

_MESSAGE_CHARS_MAX = 4000


def fill_closed_streams() -> None:
    """Open /dev/null for a closed standard stream, so that none of our files gets its number."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != fd:
                os.dup2(null, fd)
                os.close(null)
            os.set_inheritable(fd, True)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  None if it was closed
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def claim_stdout() -> int:
    """Return a descriptor of the real stdout; descriptor 1 leads to stderr from now on."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    answer = os.dup(1)
    os.dup2(2, 1)
    return answer


def write_all(fd: int, content: bytes) -> None:
    """Write everything, in as many pieces as needed. Raises OSError."""
    rest = memoryview(content)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:  # another process made the shared description non-blocking
            wait_writable(fd)


def wait_writable(fd: int) -> None:
    """Wait until `fd` is writable."""
    import select

    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    poll.poll()


def sentence_and_code(error: BaseException) -> str:
    """The error's sentence, and its code in `docs/reference/errors.md`."""
    code = code_of(error)
    return f"{one_sentence(error)} [{code}]" if code else one_sentence(error)


def code_of(error: BaseException) -> str:
    """The stable code of a MoonpoolError; empty for other errors."""
    from moonpool.core.errors import HostUnfitError, MoonpoolError, is_starved

    if is_starved(error):
        return HostUnfitError.code
    return error.code if isinstance(error, MoonpoolError) else ""


def one_sentence(error: BaseException) -> str:
    """The error's sentence for a person. For a bug it says how to get a traceback."""
    from moonpool.core.errors import STARVED, MoonpoolError, is_starved

    if isinstance(error, MoonpoolError):
        return str(error)[:_MESSAGE_CHARS_MAX]
    if is_starved(error):
        return STARVED
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror.lower()}; set MOONPOOL_DEBUG=1 to see where"
    what = f"{type(error).__name__}: {error}"[:_MESSAGE_CHARS_MAX]
    return f"this is a bug in Moonpool ({what}); run it again with MOONPOOL_DEBUG=1 and report what it prints"
