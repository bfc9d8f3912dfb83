"""The identifiers of one manifest's servers and tools, in every tree. The original names are sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.core.naming import (
    name_files,
    name_js_functions,
    name_server_modules,
    name_sync_functions,
    name_tool_functions,
    name_tool_modules,
)

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import Manifest, ServerListing


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolNames:
    """The names of one tool in generated code."""

    tool: str  # the original
    function: str  # servers.<module>.<function>
    sync_function: str
    file: str  # stem of its file; differs from `function` only where two functions differ in case only
    module: str  # mcptools.<module>.<this>
    node: str  # exported by servers/<module>/index.js


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerNames:
    """The names of one server and its tools in generated code."""

    server_id: str
    module: str  # in both trees
    title: str
    tools: dict[str, ToolNames]  # by original name, in the server's order

    def to_json(self) -> JsonObject:
        return {
            "serverId": self.server_id,
            "module": self.module,
            "title": self.title,
            "tools": [
                {
                    "name": t.tool,
                    "function": t.function,
                    "sync": t.sync_function,
                    "file": t.file,
                    "mcptools": t.module,
                    "node": t.node,
                }
                for t in self.tools.values()
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeNames:
    """The names of all servers and tools of a manifest in generated code."""

    servers: dict[str, ServerNames]  # by server id, in the manifest's order

    def find(self, server_id: str, tool_name: str) -> tuple[ServerNames, ToolNames]:
        """Names of a server and a tool. Raises KeyError if one is not in the manifest."""
        server = self.servers[server_id]
        return server, server.tools[tool_name]

    def to_json(self) -> JsonObject:
        return {"version": 1, "servers": [server.to_json() for server in self.servers.values()]}


def name_manifest(manifest: Manifest) -> TreeNames:
    """Allocate all identifiers; the result does not depend on the manifest's order."""
    modules = name_server_modules(server.server_id for server in manifest.servers)
    return TreeNames(
        servers={server.server_id: _name_server(server, modules[server.server_id]) for server in manifest.servers}
    )


def _name_server(server: ServerListing, module: str) -> ServerNames:
    originals = [tool.name for tool in server.tools]
    functions, modules = name_tool_functions(originals), name_tool_modules(originals)
    sync_functions, files = name_sync_functions(functions), name_files(functions)
    node_functions = name_js_functions(originals)
    return ServerNames(
        server_id=server.server_id,
        module=module,
        title=server.title or server.name,
        tools={
            name: ToolNames(
                tool=name,
                function=functions[name],
                sync_function=sync_functions[name],
                file=files[name],
                module=modules[name],
                node=node_functions[name],
            )
            for name in originals
        },
    )
