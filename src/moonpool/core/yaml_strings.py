"""Strings, flat lists and flat mappings of strings, read from YAML by PyYAML. Pure.

SECURITY: only strings, lists and dictionaries are ever made (`BaseLoader` knows no other type). Anchors, aliases, tags
and nesting deeper than `_DEPTH_MAX` are refused as they come, so neither time nor memory can grow faster than the text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

Value: TypeAlias = "str | list[str] | dict[str, str]"

_DEPTH_MAX: Final = 20
_QUOTE: Final = "write it in double quotes"
_ESCAPE: Final = "it has a `\\` that is no escape sequence; write `\\\\` for a backslash"
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
_REMEDIES: Final = {  # how PyYAML's texts begin, and what helps whoever wrote it
    "found unexpected end of stream": "the quote that begins the value is not closed",
    "found character '\\t' that cannot start any token": "a tab indents it; use spaces",
    "found unknown escape character": _ESCAPE,
    "could not find expected ':'": "it does not belong to the value above it; a list goes one `- item` to a line",
    "expected <block end>": f"there is text behind the end of the value, or it is indented otherwise; {_QUOTE}",
    "expected ',' or": f"a bracket is not closed; if it is meant as text, {_QUOTE}",
}


class YamlValueError(Exception):
    """What is wrong, for a person. `line` counts from 0 in the text that was given."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


class _Loader(yaml.BaseLoader):
    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = cast("Any", self).peek_event()
        line = event.start_mark.line
        if event.anchor is not None or getattr(event, "tag", None) is not None:
            mark = "*" if isinstance(event, yaml.AliasEvent) else "!" if event.anchor is None else "&"
            raise YamlValueError(line, f"a string cannot begin with {mark!r} here; {_QUOTE}")
        if isinstance(event, yaml.ScalarEvent) and _HALF_CHARACTER.search(event.value):
            raise YamlValueError(line, _ESCAPE)
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise YamlValueError(line, f"it is nested more than {_DEPTH_MAX} deep")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in cast("Sequence[tuple[Any, Any]]", node.value):
            if isinstance(key.value, str) and key.value in seen:
                raise YamlValueError(key.start_mark.line, f"`{key.value}` is there twice; keep one")
            seen.add(str(key.value))
        return node


def read_value(lines: Sequence[str]) -> Value:
    """Read `lines` as one value. Lists and mappings below a mapping are left out. Raises YamlValueError."""
    text = "_: " + "\n".join(lines) + "\n"
    try:
        value = _Loader(text).get_single_data()["_"]
    except yaml.MarkedYAMLError as error:
        raise _told(error) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position)
        raise YamlValueError(line, f"the character U+{ord(text[error.position]):04X} cannot stand in YAML") from None
    except (ValueError, OverflowError):  # PyYAML's `chr` of an escape sequence beyond Unicode, or beyond a C int
        raise YamlValueError(0, _ESCAPE) from None
    if isinstance(value, list):
        if not all(isinstance(item, str) for item in cast("list[object]", value)):
            raise YamlValueError(
                0, f"a list here may hold only strings; if it is meant as one, {_QUOTE}, or close the list"
            )
        return cast("list[str]", value)
    if isinstance(value, dict):
        return {key: item for key, item in cast("dict[str, object]", value).items() if isinstance(item, str)}
    return value.strip("\n")


def _told(error: yaml.MarkedYAMLError) -> YamlValueError:
    problem = error.problem or "it cannot be read"
    why = next((why for begin, why in _REMEDIES.items() if problem.startswith(begin)), "")
    unfinished = problem.startswith(("could not find expected ':'", "found unexpected end"))  # marked at the text's end
    mark = error.context_mark if unfinished else error.problem_mark
    return YamlValueError(mark.line if mark else 0, why or f"{problem}; if it is meant as text, {_QUOTE}")
