"""Conditions on arguments: where to look (a JSON pointer) and what must be found there.

Each test below is one operator. It is made once, from a policy file, and refuses what cannot work by ValueError; it
looks at one value and answers with a `Finding`, in time that is linear in a bounded text. A new operator is a class
here with its name in `TESTS`; `moonpool.broker.policy_file` reads it from there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from moonpool.core.policy import hosts, paths
from moonpool.core.policy.findings import Finding, held
from moonpool.core.policy.globs import glob_matches
from moonpool.core.policy.pointers import NothingThere, pointer_problem, value_at

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject, JsonValue

TEXT_CHARS_MAX: Final = 16_384
"""A longer text is not searched: it is UNREADABLE."""
PATTERN_CHARS_MAX: Final = 1000
CHOICES_MAX: Final = 1000
_PATTERN_MEMORY_MAX: Final = 1 << 20


class ArgumentTest(Protocol):
    """What must be true of one value."""

    op: ClassVar[str]

    def look(self, value: JsonValue) -> Finding: ...
    def to_json(self) -> JsonObject: ...


@dataclass(frozen=True, slots=True)
class Equals:
    """The value is this one. Numbers by value; true is not 1."""

    op: ClassVar[str] = "equals"
    value: JsonValue

    def look(self, value: JsonValue) -> Finding:
        return held(same_json(self.value, value))

    def to_json(self) -> JsonObject:
        return {self.op: self.value}


@dataclass(frozen=True, slots=True)
class OneOf:
    """The value is one of these."""

    op: ClassVar[str] = "in"
    values: tuple[JsonValue, ...]

    def __post_init__(self) -> None:
        _check_choices(self.values)

    def look(self, value: JsonValue) -> Finding:
        return held(any(same_json(choice, value) for choice in self.values))

    def to_json(self) -> JsonObject:
        return {self.op: list(self.values)}


@dataclass(frozen=True, slots=True)
class Glob:
    """The text matches one of these globs. A text with a `..` between separators is not read: it may lead elsewhere."""

    op: ClassVar[str] = "glob"
    globs: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_choices(self.globs)
        for glob in self.globs:
            check_pattern_size(glob)

    def look(self, value: JsonValue) -> Finding:
        if "*" in self.globs:
            return held(True) if isinstance(value, str) else Finding.UNREADABLE
        text = _text(value)
        if text is None or ".." in text.replace("\\", "/").split("/"):
            return Finding.UNREADABLE
        return held(any(glob_matches(glob, text) for glob in self.globs))

    def to_json(self) -> JsonObject:
        return {self.op: list(self.globs)}


@dataclass(frozen=True, slots=True)
class Regex:
    """The whole text matches this expression of RE2, or, with `anywhere`, a part of it."""

    op: ClassVar[str] = "regex"
    pattern: str
    anywhere: bool = False

    def __post_init__(self) -> None:
        check_pattern_size(self.pattern)
        _expression(self.pattern)

    def look(self, value: JsonValue) -> Finding:
        text = _text(value)
        if text is None:
            return Finding.UNREADABLE
        expression = _expression(self.pattern)
        find = expression.search if self.anywhere else expression.fullmatch
        return held(find(text.encode()) is not None)

    def to_json(self) -> JsonObject:
        return {self.op: self.pattern, **({"anywhere": True} if self.anywhere else {})}


@dataclass(frozen=True, slots=True)
class Range:
    """The number lies between these two, ends included. A text that looks like a number is none."""

    op: ClassVar[str] = "min, max"
    minimum: float | None = None
    maximum: float | None = None

    def __post_init__(self) -> None:
        bounds = [bound for bound in (self.minimum, self.maximum) if bound is not None]
        if not bounds or any(isinstance(bound, bool) or not math.isfinite(bound) for bound in bounds):
            raise ValueError("a range needs a finite number for min, max or both")
        if len(bounds) == 2 and bounds[0] > bounds[1]:
            raise ValueError(f"min is {bounds[0]:g}, which is more than max {bounds[1]:g}")

    def look(self, value: JsonValue) -> Finding:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124  NaN
            return Finding.UNREADABLE
        above = self.minimum is None or value >= self.minimum
        return held(above and (self.maximum is None or value <= self.maximum))

    def to_json(self) -> JsonObject:
        named: dict[str, JsonValue] = {"min": self.minimum, "max": self.maximum}
        return {name: bound for name, bound in named.items() if bound is not None}


@dataclass(frozen=True, slots=True)
class Below:
    """The path is one of these folders or lies below one: `moonpool.core.policy.paths`."""

    op: ClassVar[str] = "below"
    folders: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_choices(self.folders)
        for folder in self.folders:
            if problem := paths.folder_problem(folder):
                raise ValueError(f"{folder[:100]!r}: {problem}")

    def look(self, value: JsonValue) -> Finding:
        if not isinstance(value, str):
            return Finding.UNREADABLE
        return paths.below(self.folders, value)

    def to_json(self) -> JsonObject:
        return {self.op: list(self.folders)}


@dataclass(frozen=True, slots=True)
class HostIn:
    """The URL's host is one of these: `moonpool.core.policy.hosts`."""

    op: ClassVar[str] = "host_in"
    hosts: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_choices(self.hosts)
        for host in self.hosts:
            if problem := hosts.host_problem(host):
                raise ValueError(f"{host[:100]!r}: {problem}")

    def look(self, value: JsonValue) -> Finding:
        return hosts.host_in(self.hosts, value) if isinstance(value, str) else Finding.UNREADABLE

    def to_json(self) -> JsonObject:
        return {self.op: list(self.hosts)}


@dataclass(frozen=True, slots=True)
class Absent:
    """Nothing is there; null is something."""

    op: ClassVar[str] = "absent"

    def look(self, value: JsonValue) -> Finding:
        del value
        return Finding.FAILS

    def to_json(self) -> JsonObject:
        return {self.op: True}


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a rule."""

    at: str
    test: ArgumentTest

    def __post_init__(self) -> None:
        if problem := pointer_problem(self.at):
            raise ValueError(f"{self.at[:100]!r}: {problem}")

    def look(self, arguments: JsonValue) -> Finding:
        """Whether `arguments` meet this condition."""
        value = value_at(self.at, arguments)
        if isinstance(value, NothingThere):
            return Finding.HOLDS if isinstance(self.test, Absent) else Finding.MISSING
        return self.test.look(value)

    def to_json(self) -> JsonObject:
        return {"at": self.at, **self.test.to_json()}


def same_json(ours: JsonValue, theirs: JsonValue) -> bool:
    """Equality as JSON has it. Goes no deeper than `ours`, which comes from a policy."""
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return ours is theirs
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same_json(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(same_json(*pair) for pair in zip(ours, theirs, strict=True))
    if isinstance(ours, dict | list) or isinstance(theirs, dict | list):
        return False
    return ours == theirs


def check_pattern_size(pattern: str) -> None:
    """Raise ValueError for a glob or expression that is too long."""
    if len(pattern) > PATTERN_CHARS_MAX:
        raise ValueError(f"a pattern of {len(pattern)} characters: use at most {PATTERN_CHARS_MAX}")


def _check_choices(choices: tuple[Any, ...]) -> None:
    if not 0 < len(choices) <= CHOICES_MAX:
        raise ValueError(f"a list of {len(choices)} entries: give 1 to {CHOICES_MAX}")


def _text(value: JsonValue) -> str | None:
    """`value` as a text that can be searched; half a surrogate pair is none."""
    if not isinstance(value, str) or len(value) > TEXT_CHARS_MAX:
        return None
    return value if value.encode(errors="replace").decode() == value else None


@lru_cache(maxsize=4096)
def _expression(pattern: str) -> Any:
    """`pattern` for RE2, which takes linear time whatever the pattern. Raises ValueError."""
    re2: Any = import_module("re2")  # untyped; only policies with expressions pay for it
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_MEMORY_MAX
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as exc:
        reason = exc.args[0] if len(exc.args) == 1 else exc
        told = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"{pattern[:100]!r} is not a regular expression of RE2: {told}") from None
