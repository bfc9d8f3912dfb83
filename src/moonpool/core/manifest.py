"""What upstream servers offer, as data: tool definitions, listings and the manifest made of them.

A manifest is frozen and has a digest; wrapper trees are a function of it and are addressed by that digest. Tool
definitions keep the upstream's own JSON (`raw`), because validation, drift detection and `get_tool_definition` need it
member by member (H-047). Everything in `raw` is untrusted text from a server.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from moonpool.core.json import JsonObject, JsonValue, digest_json
from moonpool.features.library.model.entries import Library

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


RESERVED_PREFIX: Final = "mcp:"
"""Tool names that begin so are ours: what a server offers beside tools. No tool of a server may be called so."""


@dataclass(frozen=True, kw_only=True)
class ToolDefinition:
    """One tool of one upstream server, as `tools/list` gave it."""

    server_id: str
    name: str  # the protocol identifier: case-sensitive, sent unchanged in tools/call (H-014, H-016)
    raw: JsonObject

    @property
    def title(self) -> str:
        return _text(self.raw.get("title"))

    @property
    def description(self) -> str:
        return _text(self.raw.get("description"))

    @property
    def input_schema(self) -> JsonValue:
        """The declared JSON Schema, or the schema of any object where the server declared none."""
        schema = self.raw.get("inputSchema")
        return schema if isinstance(schema, dict | bool) else {"type": "object"}

    @property
    def output_schema(self) -> JsonValue:
        """The declared JSON Schema of `structuredContent`, or None."""
        schema = self.raw.get("outputSchema")
        return schema if isinstance(schema, dict | bool) else None

    @property
    def annotations(self) -> JsonObject:
        """The server's own hints. SECURITY: untrusted; they may raise a risk, never lower it (X-22)."""
        annotations = self.raw.get("annotations")
        return annotations if isinstance(annotations, dict) else {}

    @property
    def key(self) -> tuple[str, str]:
        return (self.server_id, self.name)

    @cached_property
    def digest(self) -> str:
        return digest_json(self.raw)


@dataclass(frozen=True, kw_only=True)
class ServerListing:
    """All tools of one server and what the server says about itself."""

    server_id: str  # the key under `mcpServers`
    tools: tuple[ToolDefinition, ...] = ()
    name: str = ""
    title: str = ""
    description: str = ""  # of `serverInfo`; like `instructions` it says what the server is for
    version: str = ""
    instructions: str = ""
    protocol_version: str = ""
    warnings: tuple[str, ...] = ()  # tools that were left out or repaired, and why

    def to_json(self) -> JsonObject:
        return {
            "serverId": self.server_id,
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "version": self.version,
            "instructions": self.instructions,
            "protocolVersion": self.protocol_version,
            "warnings": list(self.warnings),
            "tools": [tool.raw for tool in self.tools],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, JsonValue]) -> ServerListing:
        """Read what `to_json` wrote. Raises ValueError when `data` has another shape."""
        server_id, tools, warnings = data.get("serverId"), data.get("tools"), data.get("warnings")
        if not isinstance(server_id, str) or not isinstance(tools, list) or not isinstance(warnings, list):
            raise ValueError("not a server listing")  # noqa: TRY004  one error for every wrong shape
        definitions: list[ToolDefinition] = []
        for raw in tools:
            if not isinstance(raw, dict) or not isinstance(name := raw.get("name"), str):
                raise ValueError("not a tool definition")  # noqa: TRY004
            definitions.append(ToolDefinition(server_id=server_id, name=name, raw=raw))
        return cls(
            server_id=server_id,
            tools=tuple(definitions),
            name=_text(data.get("name")),
            title=_text(data.get("title")),
            description=_text(data.get("description")),
            version=_text(data.get("version")),
            instructions=_text(data.get("instructions")),
            protocol_version=_text(data.get("protocolVersion")),
            warnings=tuple(_text(item) for item in warnings),
        )


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The frozen list of tools that one session may use, and the saved actions and skills that stand beside them."""

    servers: tuple[ServerListing, ...] = ()
    library: Library = field(default_factory=Library)
    held: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str], compare=False)
    """Tools that may not be called until an operator accepts what changed, and the sentence that says so."""
    _by_key: dict[tuple[str, str], ToolDefinition] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_key", {tool.key: tool for tool in self.tools()})

    def tools(self) -> Iterator[ToolDefinition]:
        for server in self.servers:
            yield from server.tools

    def find(self, server_id: str, tool_name: str) -> ToolDefinition | None:
        return self._by_key.get((server_id, tool_name))

    @cached_property
    def server_ids(self) -> frozenset[str]:
        """Of the servers whose tools are known."""
        return frozenset(server.server_id for server in self.servers)

    @cached_property
    def digest(self) -> str:
        """Changes when, and only when, a server, a tool, any member of a definition or the library changes."""
        servers: dict[str, JsonValue] = {
            server.server_id: {tool.name: tool.digest for tool in server.tools} for server in self.servers
        }
        return digest_json([servers, self.library.digest] if self.library else servers)


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
