"""Conditions on arguments: a place (a JSON pointer) and a test of its value.

Each test below is one operator. It is created once, from a policy file, and raises ValueError for invalid settings; it
tests one value and returns a `Finding` or raises UnreadableError, in time linear in a string of bounded length. A new
operator is a class here with its name in `TESTS` of `moonpool.configuration.policy_file`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from moonpool.policy import hosts, paths, texts
from moonpool.policy.findings import Finding, UnreadableError, any_holds, held
from moonpool.policy.globs import glob_matches
from moonpool.policy.members import MEMBERS_MAX, folded
from moonpool.policy.pointers import NothingThere, find, pointer_problem

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject, JsonValue

WHOLE_MAX: Final = 2**53
"""From here on programs that store numbers as floats read a different integer."""
PATTERN_CHARS_MAX: Final = 1000
CHOICES_MAX: Final = 1000
_PATTERN_MEMORY_MAX: Final = 1 << 20


class ArgumentTest(Protocol):
    """A test of one value."""

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
        if isinstance(value, str):
            return held(texts.is_one_of(value, self.values))
        return any_holds(partial(same_json, choice, value) for choice in self.values)

    def to_json(self) -> JsonObject:
        return {self.op: list(self.values)}


@dataclass(frozen=True, slots=True)
class Glob:
    """The string matches one of these globs in every reading (`moonpool.policy.texts`)."""

    op: ClassVar[str] = "glob"
    globs: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_choices(self.globs)
        for glob in self.globs:
            check_pattern_size(glob)

    def look(self, value: JsonValue) -> Finding:
        if "*" in self.globs and isinstance(value, str):
            return Finding.HOLDS
        text = texts.searchable(value)
        texts.check_dots(text)
        return held(texts.matches(text, lambda one: any(glob_matches(glob, one) for glob in self.globs)))

    def to_json(self) -> JsonObject:
        return {self.op: list(self.globs)}


@dataclass(frozen=True, slots=True)
class Regex:
    """The whole string matches this RE2 expression, or, with `anywhere`, a part of it, in every reading."""

    op: ClassVar[str] = "regex"
    pattern: str
    anywhere: bool = False

    def __post_init__(self) -> None:
        check_pattern_size(self.pattern)
        _expression(self.pattern)

    def look(self, value: JsonValue) -> Finding:
        text = texts.searchable(value)
        expression = _expression(self.pattern)
        match = expression.search if self.anywhere else expression.fullmatch
        found = texts.matches(text, lambda one: match(one.encode(errors="replace")) is not None)
        # dots add nothing that is searched for, so long strings are not denied because of them
        if found or not self.anywhere:
            texts.check_dots(text)
        return held(found)

    def to_json(self) -> JsonObject:
        return {self.op: self.pattern, **({"anywhere": True} if self.anywhere else {})}


@dataclass(frozen=True, slots=True)
class Range:
    """The number is between these two, inclusive. A string is not a number."""

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
            raise UnreadableError("it is not a number")
        _check_exact(value)
        above = self.minimum is None or value >= self.minimum
        return held(above and (self.maximum is None or value <= self.maximum))

    def to_json(self) -> JsonObject:
        named: dict[str, JsonValue] = {"min": self.minimum, "max": self.maximum}
        return {name: bound for name, bound in named.items() if bound is not None}


@dataclass(frozen=True, slots=True)
class Below:
    """The path is one of these folders or below one: `moonpool.policy.paths`."""

    op: ClassVar[str] = "below"
    folders: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_choices(self.folders)
        for folder in self.folders:
            if problem := paths.folder_problem(folder):
                raise ValueError(f"{folder[:100]!r}: {problem}")

    def look(self, value: JsonValue) -> Finding:
        if not isinstance(value, str):
            raise UnreadableError("it is not a string")
        return paths.below(self.folders, value)

    def to_json(self) -> JsonObject:
        return {self.op: list(self.folders)}


@dataclass(frozen=True, slots=True)
class HostIn:
    """The URL's host is one of these: `moonpool.policy.hosts`."""

    op: ClassVar[str] = "host_in"
    hosts: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_choices(self.hosts)
        for host in self.hosts:
            if problem := hosts.host_problem(host):
                raise ValueError(f"{host[:100]!r}: {problem}")

    def look(self, value: JsonValue) -> Finding:
        if not isinstance(value, str):
            raise UnreadableError("it is not a string")
        return hosts.host_in(self.hosts, value)

    def to_json(self) -> JsonObject:
        return {self.op: list(self.hosts)}


@dataclass(frozen=True, slots=True)
class Absent:
    """There is no value; null is a value."""

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
        return self.evaluate(arguments)[0]

    def evaluate(self, arguments: JsonValue) -> tuple[Finding, str]:
        """Whether `arguments` meet this condition, and if they are unreadable, why."""
        try:
            return self._look(arguments), ""
        except UnreadableError as exc:
            return Finding.UNREADABLE, str(exc)

    def _look(self, arguments: JsonValue) -> Finding:
        found = find(self.at, arguments)
        if isinstance(found, NothingThere):
            return Finding.HOLDS if isinstance(self.test, Absent) else Finding.MISSING
        if not found.alias:
            return self.test.look(found.value)
        # SECURITY: some servers find the value there, others do not.
        if isinstance(self.test, Absent) or self.test.look(found.value) is not Finding.FAILS:
            raise UnreadableError(found.alias)
        return Finding.MISSING

    def to_json(self) -> JsonObject:
        return {"at": self.at, **self.test.to_json()}


def same_json(ours: JsonValue, theirs: JsonValue) -> bool:
    """JSON equality. Recurses no deeper than `ours`, which comes from a policy.

    Raises UnreadableError if programs may differ about it.
    """
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return ours is theirs
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return _same_names(ours, theirs) and all(same_json(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(same_json(*pair) for pair in zip(ours, theirs, strict=True))
    if isinstance(ours, dict | list) or isinstance(theirs, dict | list):
        return False
    if isinstance(ours, str) and isinstance(theirs, str):
        return texts.is_one_of(theirs, (ours,))
    if isinstance(ours, int | float) and isinstance(theirs, int | float):
        _check_exact(theirs)
    return ours == theirs


def _same_names(ours: JsonObject, theirs: JsonObject) -> bool:
    if ours.keys() == theirs.keys():
        return True
    if len(theirs) <= MEMBERS_MAX and {*map(folded, ours)} == {*map(folded, theirs)}:
        raise UnreadableError("its members differ from those of the rule only by how they are written")
    return False


def _check_exact(number: float) -> None:
    """Raise UnreadableError for a number that programs may read differently."""
    if abs(number) >= WHOLE_MAX:
        raise UnreadableError("programs round numbers from 2^53 on to different ones")


def check_pattern_size(pattern: str) -> None:
    """Raise ValueError for a glob or expression that is too long."""
    if len(pattern) > PATTERN_CHARS_MAX:
        raise ValueError(f"a pattern of {len(pattern)} characters: use at most {PATTERN_CHARS_MAX}")


def _check_choices(choices: tuple[Any, ...]) -> None:
    if not 0 < len(choices) <= CHOICES_MAX:
        raise ValueError(f"a list of {len(choices)} entries: give 1 to {CHOICES_MAX}")


@lru_cache(maxsize=4096)
def _expression(pattern: str) -> Any:
    """`pattern` compiled by RE2, which takes linear time for any pattern. Raises ValueError."""
    re2: Any = import_module("re2")  # untyped; only policies with expressions need it
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_MEMORY_MAX
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as exc:
        reason = exc.args[0] if len(exc.args) == 1 else exc
        told = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        remedy = r"write \( or \\ for such a sign itself; (?=...), (?<...) and \1 are not in RE2; counts go up to 1000"
        raise ValueError(f"{pattern[:100]!r} is not a regular expression of RE2: {told}; {remedy}") from None
