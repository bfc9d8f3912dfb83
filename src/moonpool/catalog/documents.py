"""The indexed document of one tool: weighted text fields from its definition and its server.

SECURITY: everything read here comes from a server. Sizes, counts and depths are limited, types are checked; invalid
parts of a definition are skipped.

The index itself (`moonpool.catalog.index`) takes documents, not tools: saved actions and skills are indexed, too
(`moonpool.catalog.library_entries`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.core.manifest import ServerListing, ToolDefinition

FIELD_CHARS_MAX: Final = 8_000
PARAMETERS_MAX: Final = 400
KEPT_MARK: Final = "\0"
"""Prefix of the groups of library entries (actions, skills); no server id has it."""
SCHEMA_DEPTH_MAX: Final = 5


class Fields(NamedTuple):
    """One text per field, or one weight per field."""

    name: str
    title: str
    description: str
    server: str
    server_description: str
    parameter_names: str
    parameter_descriptions: str

    def clipped(self) -> Fields:
        return Fields(*(text[:FIELD_CHARS_MAX] for text in self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One search result: its place and its searchable text."""

    server_id: str
    name: str
    fields: Fields

    @property
    def key(self) -> tuple[str, str]:
        return (self.server_id, self.name)


def tool_document(tool: ToolDefinition, server: ServerListing) -> Document:
    """Collect the searchable text of `tool`, including its server's."""
    names, descriptions = parameter_texts(tool.raw.get("inputSchema"))
    about = (server.name if server.name != server.server_id else "", server.title)
    texts = Fields(
        name=tool.name,
        title=tool.title or _annotated_title(tool),
        description=tool.description,
        server=" ".join((server.server_id, *(text for text in about if text))),
        server_description=" ".join(text for text in (server.description, server.instructions) if text),
        parameter_names=names,
        parameter_descriptions=descriptions,
    )
    return Document(server_id=tool.server_id, name=tool.name, fields=texts.clipped())


def parameter_texts(schema: JsonValue) -> tuple[str, str]:
    """The names of all parameters, and their descriptions."""
    names: list[str] = []
    descriptions: list[str] = []
    for name, description in _parameters(schema, depth=0):
        names.append(name)
        descriptions.append(description)
        if len(names) >= PARAMETERS_MAX:
            break
    return " ".join(names), " ".join(descriptions)


def _annotated_title(tool: ToolDefinition) -> str:
    title = tool.annotations.get("title")
    return title if isinstance(title, str) else ""


def _parameters(schema: JsonValue, *, depth: int) -> Iterator[tuple[str, str]]:
    """Yield name and description of every parameter, nested ones after their parent."""
    if not isinstance(schema, dict) or depth >= SCHEMA_DEPTH_MAX:
        return
    properties = schema.get("properties")
    for name, value in properties.items() if isinstance(properties, dict) else ():
        description = value.get("description") if isinstance(value, dict) else None
        yield name, description if isinstance(description, str) else ""
        yield from _nested_parameters(value, depth=depth + 1)


def _nested_parameters(schema: JsonValue, *, depth: int) -> Iterator[tuple[str, str]]:
    if not isinstance(schema, dict):
        return
    yield from _parameters(schema, depth=depth)
    for branch in _branches(schema):
        yield from _parameters(branch, depth=depth)


def _branches(schema: JsonObject) -> Iterator[JsonValue]:
    yield schema.get("items")
    for keyword in ("anyOf", "oneOf", "allOf"):
        branches = schema.get(keyword)
        yield from branches if isinstance(branches, list) else ()
