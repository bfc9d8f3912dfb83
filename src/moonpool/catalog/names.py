"""The names of servers and tools in sandbox code, and lookup by them.

Hits show `servers.google_drive.get_document`, because code imports that. So every query may use these names or the
protocol's (`google-drive`, `get-document`); the protocol's take precedence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.wrappers.names import name_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from moonpool.core.manifest import Manifest, ToolDefinition

PACKAGE: Final = "servers."


class GuestNames:
    """Names of one manifest's servers and tools in the `servers` tree, read in both directions."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self.tree = name_manifest(manifest)
        self._server_ids = {server.module: server_id for server_id, server in self.tree.servers.items()}
        self._tool_names = {
            (server_id, names.function): tool_name
            for server_id, server in self.tree.servers.items()
            for tool_name, names in server.tools.items()
        }

    def module(self, server_id: str) -> str:
        return PACKAGE + self.tree.servers[server_id].module

    def path(self, server_id: str, tool_name: str) -> str:
        server, tool = self.tree.find(server_id, tool_name)
        return f"{PACKAGE}{server.module}.{tool.function}"

    def server_id(self, name: str) -> str | None:
        """The server with this id, or with this module, with or without the package."""
        if name in self.tree.servers:
            return name
        return self._server_ids.get(name.removeprefix(PACKAGE))

    def tool(self, server_id: str, name: str) -> ToolDefinition | None:
        """The tool of one server with this name or function name."""
        exact = self._manifest.find(server_id, name)
        return exact or self._manifest.find(server_id, self._tool_names.get((server_id, name), ""))

    def splits(self, path: str) -> Iterator[tuple[str, str]]:
        """Every way to read `path` as a known server's id and a name; ids and names may contain dots."""
        bare = path.removeprefix(PACKAGE)
        for place, character in enumerate(bare):
            server_id = self.server_id(bare[:place]) if character == "." else None
            if server_id is not None:
                yield server_id, bare[place + 1 :]
