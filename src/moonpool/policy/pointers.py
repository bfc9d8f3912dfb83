"""JSON pointers (RFC 6901): the place in a call's arguments that a condition tests."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from moonpool.policy.findings import UnreadableError
from moonpool.policy.members import beside, names_for, quoted

if TYPE_CHECKING:
    from moonpool.core.json import JsonValue

POINTER_CHARS_MAX: Final = 1000
POINTER_STEPS_MAX: Final = 64

_BAD_ESCAPE = re.compile(r"~(?![01])")
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)


class NothingThere:
    """The result for a pointer without a target; JSON's null is a target."""


NOTHING: Final = NothingThere()


def pointer_problem(pointer: str) -> str:
    """Why `pointer` cannot be used, or an empty string."""
    if pointer and not pointer.startswith("/"):
        return 'a JSON pointer starts with "/", for example "/repo" or "/options/0/path"'
    if len(pointer) > POINTER_CHARS_MAX or pointer.count("/") > POINTER_STEPS_MAX:
        return f"a JSON pointer has at most {POINTER_CHARS_MAX} characters and {POINTER_STEPS_MAX} steps"
    if _BAD_ESCAPE.search(pointer):
        return 'in a JSON pointer "~" is written "~0" and "/" inside a name "~1"'
    return ""


@dataclass(frozen=True, slots=True)
class Found:
    """The value at a pointer. `alias`: only a server that does not compare names exactly finds it there."""

    value: JsonValue
    alias: str = ""


def find(pointer: str, document: JsonValue) -> Found | NothingThere:
    """The target of `pointer` in `document`. Raises UnreadableError if that depends on the reader."""
    value, alias = document, ""
    for step in _steps(pointer):
        if isinstance(value, dict):
            names = names_for(step, value)
            if not names:
                return NOTHING
            if len(names) > 1:
                raise UnreadableError(beside(names[0], names[1]))
            if names[0] != step:
                alias = f"the arguments have {quoted(names[0])}, which a server may take for {quoted(step)}"
            value = value[names[0]]
        elif isinstance(value, list):
            if not _INDEX.fullmatch(step) or int(step) >= len(value):
                return NOTHING
            value = value[int(step)]
        else:
            return NOTHING
    return Found(value, alias)


@lru_cache(maxsize=4096)
def _steps(pointer: str) -> tuple[str, ...]:
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
