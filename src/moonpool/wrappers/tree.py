"""Manifest -> the files of both wrapper trees.

INVARIANT: pure and deterministic; the same manifest gives the same bytes. One bad tool never loses the others: a
definition that cannot be read or rendered gets an untyped wrapper and a warning (H-040).
SECURITY: the files hold names, types and prose. No address, command, header, icon or schema of an upstream is in them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from moonpool.core.json import digest_json
from moonpool.wrappers import mcptools_tree, servers_tree
from moonpool.wrappers.names import TreeNames, name_manifest
from moonpool.wrappers.schema import read_tool, untyped_tool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.manifest import Manifest, ToolDefinition
    from moonpool.wrappers.ir import ToolShape
    from moonpool.wrappers.names import ServerNames, ToolNames


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeWarning:
    """Something about a tool that its wrapper cannot express."""

    server_id: str
    tool: str
    text: str

    def __str__(self) -> str:
        return f"{self.server_id}.{self.tool}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrapperTree:
    """Generated files by relative POSIX path, and what they are called inside."""

    files: Mapping[str, bytes]
    digest: str  # over paths and contents
    names: TreeNames
    warnings: tuple[TreeWarning, ...]


def render_tree(manifest: Manifest) -> WrapperTree:
    """Render `servers/` and `mcptools/` for every tool of the manifest."""
    names = name_manifest(manifest)
    files: dict[str, str] = {
        "servers/__init__.py": servers_tree.render_root(list(names.servers.values())),
        "servers/manifest.json": json.dumps(names.to_json(), indent=1) + "\n",
        "mcptools/__init__.py": mcptools_tree.render_root(list(names.servers.values())),
    }
    warnings: list[TreeWarning] = []
    for listing in manifest.servers:
        server = names.servers[listing.server_id]
        shapes: dict[str, ToolShape] = {}
        for tool in listing.tools:
            shape, rendered = _render(tool, server.tools[tool.name], server)
            files.update(rendered)
            shapes[tool.name] = shape
            warnings += (TreeWarning(server_id=tool.server_id, tool=tool.name, text=text) for text in shape.warnings)
        files[f"servers/{server.module}/__init__.py"] = servers_tree.render_server(server, shapes)
        files[f"servers/{server.module}/INDEX.md"] = servers_tree.render_index(server, shapes)
        files[f"mcptools/{server.module}/__init__.py"] = mcptools_tree.render_server(server, shapes)
    encoded = {path: files[path].encode() for path in sorted(files)}
    return WrapperTree(
        files=MappingProxyType(encoded),
        digest=digest_json({path: text.decode() for path, text in encoded.items()}),
        names=names,
        warnings=tuple(warnings),
    )


def read_shape(tool: ToolDefinition) -> ToolShape:
    """`read_tool`, or the untyped shape when a definition beats it."""
    try:
        return read_tool(tool)
    except _BEATEN as error:
        return untyped_tool(tool, f"its schema could not be read ({type(error).__name__}); arguments are untyped")


def _render(tool: ToolDefinition, names: ToolNames, server: ServerNames) -> tuple[ToolShape, dict[str, str]]:
    shape = read_shape(tool)
    try:
        return shape, _render_shape(shape, names, server)
    except _BEATEN as error:
        shape = untyped_tool(tool, f"its types could not be written ({type(error).__name__}); arguments are untyped")
        return shape, _render_shape(shape, names, server)


def _render_shape(shape: ToolShape, names: ToolNames, server: ServerNames) -> dict[str, str]:
    return {
        f"servers/{server.module}/{names.file}.py": servers_tree.render_tool(shape, names),
        f"mcptools/{server.module}/{names.module}.py": mcptools_tree.render_tool(shape),
    }


_BEATEN: Final = (RecursionError, ValueError, TypeError, AttributeError, KeyError)
"""What reading or rendering may raise for a definition nobody thought of."""
