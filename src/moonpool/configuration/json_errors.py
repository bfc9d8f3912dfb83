"""How the configuration's JSON is spoken about: conversion whose refusals name the place, near names, kinds."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from moonpool.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

_T = TypeVar("_T", bound=msgspec.Struct)


def convert(raw: dict[str, Any], kind: type[_T], where: str) -> _T:
    """The members of `raw` as a `kind`, a struct. Raises ConfigError, which names an unknown member with its like."""
    refuse_unknown(raw, kind, where)
    try:
        return msgspec.convert(raw, type=kind)
    except msgspec.ValidationError as exc:
        problem, _, place = str(exc).partition(" - at ")
        key = place.strip("`").removeprefix("$").removeprefix(".")
        raise ConfigError(f'{where}: "{key}": {problem.replace("`", "")}' if key else f"{where}: {problem}") from None


def refuse_unknown(given: Iterable[str], kind: type[msgspec.Struct], where: str) -> None:
    """Raise ConfigError for a member that a `kind` does not have."""
    known = kind.__struct_fields__
    for key in given:
        if key not in known:
            hint = did_you_mean([key], known, suggest_known=True)
            raise ConfigError(f'{where}: unknown key "{key}"{hint or "; known are " + ", ".join(known)}')


def did_you_mean(given: Any, known: Any, *, suggest_known: bool = False) -> str:
    """`; did you mean …` when something given is close to something known, else nothing."""
    folded = {str(name).lower().replace("_", "").replace("-", ""): str(name) for name in known}
    for name in given:
        near = difflib.get_close_matches(str(name).lower().replace("_", "").replace("-", ""), folded, n=1, cutoff=0.7)
        if near:
            return (
                f'; did you mean "{folded[near[0]]}"?' if suggest_known else f'; "{name}" should be "{folded[near[0]]}"'
            )
    return ""


_REMEDIES: Final = {
    "Expecting ',' delimiter": "put a comma before it, or close what is open before it",
    "Expecting ':' delimiter": 'write "name": value',
    "Expecting property name": 'write a name in double quotes there: "name": value',
    "Expecting value": 'write a value there: "text" in double quotes, a number, true, false, null, [...] or {...}',
    "Unterminated string": 'close the string that begins there with "',
    "Extra data": "remove what follows the end of the object",
    "Invalid control character": "write \\n for a line break and \\t for a tab in a string",
    "Invalid \\": "write \\\\ for a backslash in a string",
}


def json_remedy(problem: str) -> str:
    """What to write where `json` says `problem`."""
    return next((told for begin, told in _REMEDIES.items() if problem.startswith(begin)), "write JSON there")


def json_kind(value: object) -> str:
    names = {"dict": "an object", "list": "a list", "str": "a string", "bool": "true or false", "NoneType": "null"}
    return names.get(type(value).__name__, "a number")
