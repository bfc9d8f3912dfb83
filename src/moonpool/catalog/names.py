"""How code in a sandbox names servers and tools, and the way back.

Hits show `servers.google_drive.get_document`, because that is what code imports. So every question to the catalog may
use these names as well as the protocol's own (`google-drive`, `get-document`); the protocol's own win.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.core.naming import name_server_modules, name_tool_functions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from moonpool.core.manifest import Manifest, ToolDefinition

PACKAGE: Final = "servers."


class GuestNames:
    """Names of one manifest's servers and tools in the `servers` tree."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._modules = name_server_modules(server.server_id for server in manifest.servers)
        self._server_ids = {module: server_id for server_id, module in self._modules.items()}
        self._functions: dict[tuple[str, str], str] = {}
        self._tool_names: dict[tuple[str, str], str] = {}
        for server in manifest.servers:
            for name, function in name_tool_functions(tool.name for tool in server.tools).items():
                self._functions[server.server_id, name] = function
                self._tool_names[server.server_id, function] = name

    def module(self, server_id: str) -> str:
        return PACKAGE + self._modules[server_id]

    def path(self, server_id: str, tool_name: str) -> str:
        return f"{self.module(server_id)}.{self._functions[server_id, tool_name]}"

    def server_id(self, name: str) -> str | None:
        """The server that `name` means: its id, or its module with or without the package."""
        if name in self._modules:
            return name
        return self._server_ids.get(name.removeprefix(PACKAGE))

    def tool(self, server_id: str, name: str) -> ToolDefinition | None:
        """The tool of one server that `name` means: its own name, or its function's."""
        exact = self._manifest.find(server_id, name)
        return exact or self._manifest.find(server_id, self._tool_names.get((server_id, name), ""))

    def splits(self, path: str) -> Iterator[tuple[str, str]]:
        """Every way to read `path` as a known server's id and a name; ids and names may hold dots themselves."""
        bare = path.removeprefix(PACKAGE)
        for place, character in enumerate(bare):
            server_id = self.server_id(bare[:place]) if character == "." else None
            if server_id is not None:
                yield server_id, bare[place + 1 :]
