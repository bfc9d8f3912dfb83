"""How the configuration's JSON is spoken about: conversion whose refusals name the place, near names, kinds."""

from __future__ import annotations

import difflib
from typing import Any, Final

import msgspec

from moonpool.core.errors import ConfigError


def convert(raw: dict[str, Any], kind: type[Any], where: str) -> Any:
    try:
        return msgspec.convert(raw, type=kind)
    except msgspec.ValidationError as exc:
        problem, _, place = str(exc).partition(" - at ")
        key = place.strip("`").removeprefix("$").removeprefix(".")
        raise ConfigError(f'{where}: "{key}": {problem.replace("`", "")}' if key else f"{where}: {problem}") from None


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
    "Expecting ',' delimiter": "put a comma before what stands there, or close what is open before it",
    "Expecting ':' delimiter": 'write "name": value',
    "Expecting property name": 'write a name in double quotes there: "name": value',
    "Expecting value": 'write a value there: "text" in double quotes, a number, true, false, null, [...] or {...}',
    "Unterminated string": 'close the text that begins there with "',
    "Extra data": "remove what stands behind the end of the object",
    "Invalid control character": "write \\n for a line break and \\t for a tab in a text",
    "Invalid \\": "write \\\\ for a backslash in a text",
}


def json_remedy(problem: str) -> str:
    """What to write where `json` says `problem`."""
    return next((told for begin, told in _REMEDIES.items() if problem.startswith(begin)), "write JSON there")


def json_kind(value: object) -> str:
    names = {"dict": "an object", "list": "a list", "str": "a string", "bool": "true or false", "NoneType": "null"}
    return names.get(type(value).__name__, "a number")
