"""What the resolver says, as errors. Pure.

SECURITY: the words come out of a sandbox: bounded, printable, without credentials. They choose between errors that all
mean "nothing was installed". Code is not told where the index is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from moonpool.engine.packages.model import (
    PackageConflictError,
    PackageError,
    PackageRefusedError,
    PackageTooLargeError,
    PackageUnknownError,
    PackageWithoutWheelError,
    PackageYankedError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_CHARS_MAX: Final = 600
_USER: Final = re.compile(r"//[^/@\s]+@")
_ADDRESS: Final = re.compile(r"[a-z+]+://[^\s`'\")]+")
_NOISE: Final = ("Using ", "Resolved ", "Would ", " + ", " - ", "hint:", "warning: Failed to")
_KINDS: Final[Sequence[tuple[str, type[PackageError]]]] = (
    ("No space left", PackageTooLargeError),
    ("Disk quota", PackageTooLargeError),
    ("that may be installed", PackageTooLargeError),
    ("does not match given name", PackageRefusedError),
    ("wheel is invalid", PackageRefusedError),
    ("yanked", PackageYankedError),
    ("no usable wheels", PackageWithoutWheelError),
    ("no wheels with a matching", PackageWithoutWheelError),
    ("Wheels are required", PackageWithoutWheelError),
    ("the current Python version", PackageWithoutWheelError),
    ("not found in the package registry", PackageUnknownError),
    ("not found in the provided package locations", PackageUnknownError),
    ("depend on", PackageConflictError),
    ("depends on", PackageConflictError),
    ("conflict", PackageConflictError),
    ("is available and you require", PackageUnknownError),
    ("are available and you require", PackageUnknownError),
    ("there is no version of", PackageUnknownError),
    ("there are no versions of", PackageUnknownError),
    ("requirements are unsatisfiable", PackageConflictError),
)
_REMEDIES: Final[dict[type[PackageError], str]] = {
    PackageYankedError: "choose another version",
    PackageWithoutWheelError: "only wheels are installed, as source would have to run its build script; "
    "choose another version or package",
    PackageUnknownError: "check name and version",
    PackageConflictError: "packages of the environment keep their versions; ask for other versions",
    PackageTooLargeError: "install less",
    PackageRefusedError: "tell the authors of the package",
    PackageError: "check the package index and try again",
}


def error_of(said: str) -> PackageError:
    """The error for what the resolver said."""
    kind = next((kind for words, kind in _KINDS if words in said), PackageError)
    lines = (
        line.strip().removeprefix("error:").removeprefix("cause:").removeprefix("warning:").strip()
        for line in _telling_lines(said)
    )
    text = " ".join("".join(char if char.isprintable() else " " for char in line) for line in lines)
    short = _USER.sub("//***@", text).removeprefix("No solution found when resolving dependencies ").rstrip(".")
    shown = short if len(short) <= _CHARS_MAX else f"{short[:_CHARS_MAX]}…"
    message = f"nothing was installed: {shown or 'the resolver gave no reason'}; {_REMEDIES[kind]}"
    error = kind(message, remedy="or raise packages_bytes_max" if kind is PackageTooLargeError else "")
    error.for_guest = _ADDRESS.sub("the package index", error.for_guest)
    return error


def _telling_lines(said: str) -> list[str]:
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith(_NOISE)]
    return lines[:20]
