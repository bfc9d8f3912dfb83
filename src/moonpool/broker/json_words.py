"""How the configuration's JSON is spoken about: conversion whose refusals name the place, near names, kinds."""

from __future__ import annotations

import difflib
from typing import Any

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


def json_kind(value: object) -> str:
    names = {"dict": "an object", "list": "a list", "str": "a string", "bool": "true or false", "NoneType": "null"}
    return names.get(type(value).__name__, "a number")
