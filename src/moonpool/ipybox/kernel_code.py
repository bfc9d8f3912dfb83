"""An ipybox kernel, for both that have one: the code that prepares it, its secrets, and what an execution came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.configuration.secrets import secrets_in_arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from moonpool.sdk.results import Result

_QUIET: Final = {"TERM": "dumb", "NO_COLOR": "1"}


def preparation(variables: Mapping[str, str], *calls: str, imports: Iterable[str] = ()) -> str:
    """Code that gives a new kernel its variables and folders to import from, and makes `calls` (`guest_call`)."""
    lines = [
        f"__import__('os').environ.update({ {**_QUIET, **variables}!r})",
        f"__import__('sys').path[2:2] = {['', *imports]!r}",
    ]
    return "\n".join([*lines, *calls])


def guest_call(module: str, call: str) -> str:
    """Code that calls a function of a module of the kernel's, without leaving a name."""
    return f"__import__('moonpool_guest.python', fromlist=[{module!r}]).{module}.{call}"


def secrets_of(variables: Mapping[str, str]) -> frozenset[str]:
    """SECURITY: the values of a kernel's variables that are secrets, by name or look: redacted as the servers' are."""
    return frozenset(secrets_in_arguments(f"{name}={value}" for name, value in variables.items()))


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an execution failed."""

    text: str  # begins with the type of its error
    timed_out: bool = False


def failure_of(result: Result, timeout: float | None) -> Failure | None:
    """Why it failed, as ipybox says it. A variable `result` of any type is no failure here."""
    error = result.error
    if error is None or result.failed_by == "result":
        return None
    if error.type != "Timeout" or result.failed_by == "code":
        return Failure(f"{error.type}: {error.message}")
    limit = "" if timeout is None else f" of {timeout:.2f}s"
    left = "; the variables of this session are lost" if result.state == "lost" else ""  # it could not be interrupted
    return Failure(
        f"TimeoutError: Code execution exceeded timeout{limit} (approval wait excluded){left}.", timed_out=True
    )


def shown_text(result: Result) -> str:
    """The value of the last expression. What the code displayed is among what it printed."""
    return result.text


def pictures_of(result: Result) -> list[tuple[str, bytes]]:
    """What it showed, for `pictures.save_pictures`."""
    return [(one.mime, one.data) for one in result.displays]
