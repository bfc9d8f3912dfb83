"""Follows `$ref` inside its document, never outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from moonpool.wrappers.leaf_schemas import clip

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.core.json import JsonValue

_CHAIN_MAX: Final = 24


def find(root: JsonValue, reference: JsonValue, warn: Callable[[str], None]) -> JsonValue:
    """The target of a reference; None, with a warning, if it leaves the document or does not exist."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        warn(f"$ref {clip(str(reference), 80)!r} is not followed: it does not point into this schema")
        return None
    node: JsonValue = root
    for part in reference.split("/")[1:]:
        step = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(step)
        elif isinstance(node, list) and step.isascii() and step.isdigit() and int(step[:9]) < len(node):
            node = node[int(step[:9])]
        else:
            node = None
    if not isinstance(node, dict | bool):
        warn(f"$ref {clip(reference, 80)!r} points at nothing")
        return None
    return node


def follow(root: JsonValue, schema: JsonValue, warn: Callable[[str], None]) -> JsonValue:
    """The schema at the end of a chain of references, merged with the keywords beside them."""
    for _ in range(_CHAIN_MAX):
        if not isinstance(schema, dict) or "$ref" not in schema:
            return schema
        target = find(root, schema["$ref"], warn)
        beside = {word: value for word, value in schema.items() if word != "$ref"}
        schema = {**target, **beside} if isinstance(target, dict) else beside
    return {}
