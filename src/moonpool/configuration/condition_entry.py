"""One condition on an argument as people write it: `when` of a policy file, of a server entry and of `--when`.

Every key: docs/reference/policy-file.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar, cast

import msgspec
from msgspec import UNSET, UnsetType

from moonpool.core.conversion import convert, kind_of
from moonpool.policy import Absent, Below, Condition, Equals, Glob, HostIn, OneOf, Range, Regex

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from moonpool.core.json import JsonValue
    from moonpool.policy import ArgumentTest

_Word = TypeVar("_Word", bound=str)
Words: TypeAlias = _Word | tuple[_Word, ...]
"""A list of strings; one string alone is a list of one."""

_DEPTH_MAX: Final = 64


class ConditionEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One condition as it is written."""

    at: Annotated[str, msgspec.Meta(extra={"need": 'say where to look, for example at = "/repo"'})]
    equals: Any = UNSET
    in_: tuple[Any, ...] | UnsetType = msgspec.field(default=UNSET, name="in")
    glob: Words[str] | UnsetType = UNSET
    regex: str | UnsetType = UNSET
    below: Words[str] | UnsetType = UNSET
    host_in: Words[str] | UnsetType = UNSET
    absent: bool | UnsetType = UNSET
    anywhere: bool | UnsetType = UNSET
    min: int | float | UnsetType = UNSET
    max: int | float | UnsetType = UNSET

    def __post_init__(self) -> None:
        self.condition()

    def condition(self) -> Condition:
        """What it means. Raises ValueError, while it is read."""
        test = self._test()
        try:
            return Condition(at=self.at, test=test)
        except ValueError as exc:
            raise ValueError(f'"at": {exc}') from None

    def _test(self) -> ArgumentTest:
        given = [op for op in _TESTS if getattr(self, op) is not UNSET]
        if len(given) != 1 and given != ["min", "max"]:
            have = f"has {' and '.join(map(_name, given))}" if given else "asks for nothing"
            ops = ", ".join(map(_name, _TESTS))
            raise ValueError(f"{have}; a condition has one of {ops} (min and max may be combined)")
        if self.anywhere is not UNSET and given != ["regex"]:
            raise ValueError('"anywhere": belongs to "regex" only')
        try:
            return _TESTS[given[0]](self)
        except ValueError as exc:
            raise ValueError(f'"{_name(given[0])}": {exc}') from None


def read_condition(raw: object, where: str) -> Condition:
    """One condition. Raises ConfigError."""
    return convert(raw, ConditionEntry, where).condition()


def listed(given: Words[_Word]) -> tuple[_Word, ...]:
    """`given` as a list."""
    return given if isinstance(given, tuple) else (given,)


def json_value(value: Any, depth: int = _DEPTH_MAX) -> JsonValue:
    """`value`, if it is JSON: TOML's dates and its nan and inf are none. Raises ValueError."""
    if depth == 0:
        raise ValueError(f"is nested deeper than {_DEPTH_MAX} levels")
    if isinstance(value, dict | list):
        found = cast("dict[str, Any] | list[Any]", value)
        for one in found.values() if isinstance(found, dict) else found:
            json_value(one, depth - 1)
    elif isinstance(value, float) and not abs(value) < float("inf"):
        raise ValueError("nan and inf are no JSON")
    elif value is not None and not isinstance(value, str | bool | int | float):
        raise ValueError(f"{kind_of(value)} is not JSON; write it as a string")
    return cast("JsonValue", value)


def _name(op: str) -> str:
    return op.rstrip("_")


def _absent(entry: ConditionEntry) -> Absent:
    if entry.absent is not True:
        raise ValueError('may only be true; to ask for a value that is there, use glob = "*" or another operator')
    return Absent()


def _range(entry: ConditionEntry) -> Range:
    return Range(None if entry.min is UNSET else entry.min, None if entry.max is UNSET else entry.max)


_TESTS: Final[Mapping[str, Callable[[Any], ArgumentTest]]] = {
    "equals": lambda entry: Equals(json_value(entry.equals)),
    "in_": lambda entry: OneOf(tuple(map(json_value, entry.in_))),
    "glob": lambda entry: Glob(listed(entry.glob)),
    "regex": lambda entry: Regex(entry.regex, anywhere=entry.anywhere is True),
    "below": lambda entry: Below(listed(entry.below)),
    "host_in": lambda entry: HostIn(listed(entry.host_in)),
    "absent": _absent,
    "min": _range,
    "max": _range,
}
"""The operators by the members that ask for them; `min` and `max` make one together."""
