"""Errors that Moonpool raises on purpose.

Each class has a stable `code` (the command line, MCP and the docs show it), says who is at fault and whether the same
request may succeed later. The message names the thing and the remedy, because it is often all that a person or a
model sees. A bug is an `AssertionError` instead. Rooms define their own subclasses beside the code that raises them;
`docs/reference/errors.md` lists all of them and a test compares.
"""

from __future__ import annotations

import errno
from enum import StrEnum
from typing import ClassVar, Final


class Fault(StrEnum):
    """Who has to act so that the same request succeeds."""

    CALLER = "caller"
    GUEST = "guest"
    UPSTREAM = "upstream"
    HOST = "host"


HOST_FAILED: Final = "the service cannot do this now; its log says why"


class MoonpoolError(Exception):
    """Base of every error raised on purpose."""

    code: str = "error"
    fault: ClassVar[Fault] = Fault.HOST
    retryable: ClassVar[bool] = False
    _names_host: ClassVar[bool] = True
    """Whether the words of a fault of the host may name its files and addresses."""

    def _told_elsewhere(self) -> str:
        return HOST_FAILED if self.fault is Fault.HOST and self._names_host else str(self)


def told(error: MoonpoolError, *, hides_host: bool) -> str:
    """The words of an error for a caller. SECURITY: `hides_host` for one whose machine this is not."""
    return error._told_elsewhere() if hides_host else str(error)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


class ConfigError(MoonpoolError):
    """A configuration file or setting cannot be used. Nothing was started."""

    code = "config_invalid"
    fault = Fault.CALLER


class InputError(MoonpoolError):
    """The caller's request itself cannot be used (code too large, not UTF-8, unknown language...)."""

    code = "input_invalid"
    fault = Fault.CALLER


class HostUnfitError(MoonpoolError):
    """This machine lacks something isolation needs. Nothing runs; the message says what to install or change."""

    code = "host_unfit"
    fault = Fault.HOST

    def __init__(self, missing: tuple[str, ...]) -> None:
        super().__init__("this machine cannot isolate code: " + "; ".join(missing))
        self.missing = missing


STARVED: Final = (
    "this machine lets Moonpool start no more processes or threads; raise its limit (pids.max of its control group, "
    "`ulimit -u`)"
)


def is_starved(error: BaseException) -> bool:
    """Whether `error` is how Python says that no process or thread can be started; `STARVED` says it to people."""
    if isinstance(error, OSError):
        return error.errno == errno.EAGAIN
    return isinstance(error, RuntimeError) and "start new thread" in str(error)
