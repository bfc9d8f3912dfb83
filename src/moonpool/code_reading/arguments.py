"""The arguments of a call as far as the code shows them: literals, keyword names, unknown values.

A value that is not a literal becomes `None` at a path recorded as unread, so that names can be checked and values not.
An object that may get more members (`**more`) is recorded as open.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonObject, JsonValue

Path: TypeAlias = tuple[str | int, ...]
_DEPTH_MAX: Final = 32
_WHOLE_MAX: Final = 2**63 - 1


@dataclass(slots=True)
class Arguments:
    """The known part of one call's arguments."""

    values: JsonObject = field(default_factory=dict[str, "JsonValue"])
    unread: set[Path] = field(default_factory=set[Path])
    open: set[Path] = field(default_factory=set[Path])
    problems: list[str] = field(default_factory=list[str])  # problems that the wrapper itself would refuse

    def put(self, name: str, node: ast.expr) -> None:
        """Add one argument, by its wire name."""
        if name in self.values:
            self.problems.append(f"argument {name!r} is given twice")
        self.values[name] = self._read(node, (name,))

    def put_object(self, node: ast.expr, wire_names: Mapping[str, str] | None = None) -> None:
        """Add all members of a dict literal, or record that they are unknown."""
        if isinstance(node, ast.Constant) and node.value is None and wire_names is None:
            return
        if not isinstance(node, ast.Dict):
            self.open.add(())
            return
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                self.put_object(value, wire_names or {})
            elif isinstance(key, ast.Constant) and isinstance(key.value, str) and _storable(key.value):
                name = (wire_names or {}).get(key.value, key.value)
                self.values.pop(name, None)  # the last duplicate in a dict display counts
                self.put(name, value)
            else:
                self.open.add(())

    def put_keywords(self, keywords: list[ast.keyword], wire_names: Mapping[str, str]) -> None:
        for keyword in keywords:
            if keyword.arg is None:
                self.put_object(keyword.value, wire_names)
            else:
                self.put(wire_names.get(keyword.arg, keyword.arg), keyword.value)

    def _read(self, node: ast.expr, path: Path) -> JsonValue:
        if len(path) > _DEPTH_MAX:
            self.unread.add(path)
            return None
        match node:
            case ast.Dict():
                return self._read_dict(node, path)
            case ast.List(elts=items) | ast.Tuple(elts=items) if not any(isinstance(one, ast.Starred) for one in items):
                return [self._read(item, (*path, at)) for at, item in enumerate(items)]
            case ast.Constant(value=value) if value is None or _is_json(value):
                return cast("JsonValue", value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)) if _is_number(value):
                return -cast("float", value)
            case _:
                self.unread.add(path)
                return None

    def _read_dict(self, node: ast.Dict, path: Path) -> JsonValue:
        read: JsonObject = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and _storable(key.value):
                read[key.value] = self._read(value, (*path, key.value))
            else:
                self.open.add(path)
        return read


def _is_json(value: object) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and _storable(value)) or _is_number(value)


def _is_number(value: object) -> bool:
    """Whether JSON can carry `value` as a number."""
    if type(value) is int:
        return abs(value) <= _WHOLE_MAX
    return type(value) is float and math.isfinite(value)


def _storable(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)
