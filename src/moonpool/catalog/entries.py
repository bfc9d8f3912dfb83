"""Results of the catalog short of full definitions: entries, hits and server summaries.

A manifest entry is `{serverId, toolName, title?, description?}` only (H-046): no schema, no annotations. Text is the
servers' own, unchanged; `moonpool.catalog.render` makes it safe to show.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from moonpool.catalog.library_entries import kind_of
from moonpool.features.library.model.bounds import ROOTS

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import ToolDefinition
    from moonpool.features.library.model.bounds import Kind

Detail: TypeAlias = Literal["name", "name+description"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """One tool or library entry in a list."""

    server_id: str
    tool_name: str
    title: str = ""
    description: str = ""
    kind: Kind | None = None  # the kind of a library entry; None: a tool

    @classmethod
    def of(cls, tool: ToolDefinition, *, detail: Detail = "name+description") -> CatalogEntry:
        kind = kind_of(tool.server_id)
        server_id = tool.server_id if kind is None else ROOTS[kind]
        entry = cls(server_id=server_id, tool_name=tool.name, kind=kind)
        return entry if detail == "name" else replace(entry, title=tool.title, description=tool.description)

    def to_json(self) -> JsonObject:
        entry: JsonObject = {"serverId": self.server_id, "toolName": self.tool_name}
        if self.kind:
            entry["kind"] = self.kind
        if self.title:
            entry["title"] = self.title
        if self.description:
            entry["description"] = self.description
        return entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One result of a search."""

    entry: CatalogEntry
    path: str  # the tool's path in sandbox code
    score: float  # comparable within one question only
    query_index: int  # the question that found it
    also: tuple[str, ...] = ()  # paths of tools of the same name on other servers, best first

    def to_json(self) -> JsonObject:
        hit: JsonObject = {**self.entry.to_json(), "path": self.path}
        if self.also:
            hit["also"] = list(self.also)
        return hit


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSummary:
    """One server in the compact manifest."""

    server_id: str
    module: str  # the module that sandbox code imports
    tool_count: int
    about: str = ""

    def to_json(self) -> JsonObject:
        summary: JsonObject = {"serverId": self.server_id, "module": self.module, "toolCount": self.tool_count}
        if self.about:
            summary["about"] = self.about
        return summary
