"""Manifest -> the files of all wrapper trees and of the library, and `index.json`, which lists the tools for programs.

INVARIANT: pure and deterministic; the same manifest gives the same bytes. A bad tool never affects the others: a
definition that cannot be read or rendered gets an untyped wrapper and a warning (H-040). SECURITY: the files hold
names, types and prose. They contain no address, command, header, icon or schema of an upstream.

The client library of generated JavaScript is package data, so that it can be checked and tested as JavaScript. It is
copied into every tree, because modules import it by a relative path (`../../client/mcp_client.js`). It is read once, at
import, so that rendering does no I/O.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from moonpool.core.json import digest_bytes, digest_json
from moonpool.wrappers import mcptools_tree, node_tree, servers_tree
from moonpool.wrappers.library_tree import render_library
from moonpool.wrappers.names import TreeNames, name_manifest
from moonpool.wrappers.reading import BEATEN, read_shape
from moonpool.wrappers.schema import untyped_tool
from moonpool.wrappers.stubs import render_stubs
from moonpool.wrappers.tool_index import ToolIndex, render_index, render_root_index

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import Manifest, ToolDefinition
    from moonpool.wrappers.ir import ToolShape
    from moonpool.wrappers.names import ServerNames, ToolNames
    from moonpool.wrappers.python_types import ClassNames

CLIENT_FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        name: (Path(__file__).parent / "client" / name).read_text(encoding="utf-8")
        for name in ("mcp_client.js", "mcp_client.d.ts")
    }
)
"""Source text by file name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeWarning:
    """A property of a tool that its wrapper cannot express."""

    server_id: str
    tool: str
    text: str

    def __str__(self) -> str:
        return f"{self.server_id}.{self.tool}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrapperTree:
    """Generated files by relative POSIX path, and the names used in them."""

    files: Mapping[str, bytes]
    digest: str  # over paths and contents
    names: TreeNames
    warnings: tuple[TreeWarning, ...]


def render_tree(manifest: Manifest) -> WrapperTree:
    """Render `servers/` (Python and Node) and `mcptools/` for every tool of the manifest, and its library."""
    names = name_manifest(manifest)
    files = _common_files(names)
    warnings: list[TreeWarning] = []
    index = ToolIndex()
    by_server: list[tuple[ServerNames, Mapping[str, ToolShape]]] = []
    for listing in manifest.servers:
        server = names.servers[listing.server_id]
        tools = _render_tools(listing.tools, server)
        shapes = {name: tool.shape for name, tool in tools.items()}
        for tool in tools.values():
            files.update(tool.files)
            about = {"server_id": listing.server_id, "tool": tool.shape.name}
            warnings += (TreeWarning(**about, text=text) for text in tool.shape.warnings)
        files.update(_server_files(server, shapes, [tool.node for tool in tools.values()]))
        by_server.append((server, shapes))
        index.add(server, shapes)
    files["index.json"] = index.text()
    files["servers/INDEX.md"] = render_root_index(by_server)
    encoded = {path: files[path].encode() for path in sorted(files)}
    kept = render_library(manifest.library)
    assert kept.keys().isdisjoint(encoded), "the library has roots of its own"
    texts: JsonObject = {path: text.decode() for path, text in encoded.items()}
    return WrapperTree(
        files=MappingProxyType({**encoded, **kept}),
        digest=digest_json({**texts, **{path: digest_bytes(content) for path, content in kept.items()}}),
        names=names,
        warnings=tuple(warnings),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _RenderedTool:
    shape: ToolShape
    files: dict[str, str]  # of this tool alone
    node: node_tree.NodeTool  # its part of the server's JavaScript


def _common_files(names: TreeNames) -> dict[str, str]:
    servers = list(names.servers.values())
    return {
        "servers/__init__.py": servers_tree.render_root(servers),
        "servers/manifest.json": json.dumps(names.to_json(), indent=1) + "\n",
        "servers/package.json": node_tree.MODULE_PACKAGE,
        "mcptools/__init__.py": mcptools_tree.render_root(servers),
        "client/package.json": node_tree.MODULE_PACKAGE,
        **{f"client/{name}": text for name, text in CLIENT_FILES.items()},
    }


def _server_files(
    server: ServerNames, shapes: Mapping[str, ToolShape], node: Sequence[node_tree.NodeTool]
) -> dict[str, str]:
    return {
        f"servers/{server.module}/__init__.py": servers_tree.render_server(server, shapes),
        f"servers/{server.module}/INDEX.md": render_index(server, shapes),
        f"stubs/{server.module}.json": render_stubs(server, shapes),
        f"servers/{server.module}/index.js": node_tree.render_server(server, node),
        f"servers/{server.module}/index.d.ts": node_tree.render_types(server, node),
        f"mcptools/{server.module}/__init__.py": mcptools_tree.render_server(server, shapes),
    }


def _render_tools(tools: Sequence[ToolDefinition], server: ServerNames) -> dict[str, _RenderedTool]:
    """Every tool by name, in the server's order; rendered in a fixed order, because interface names depend on it."""
    claimed = node_tree.interface_names(server)
    by_name = {tool.name: tool for tool in tools}
    rendered = {name: _render(by_name[name], server.tools[name], server, claimed) for name in sorted(by_name)}
    return {name: rendered[name] for name in by_name}


def _render(tool: ToolDefinition, names: ToolNames, server: ServerNames, claimed: ClassNames) -> _RenderedTool:
    shape = read_shape(tool)
    try:
        return _render_shape(shape, names, server, claimed)
    except BEATEN as error:
        shape = untyped_tool(tool, f"its types could not be written ({type(error).__name__}); arguments are untyped")
        return _render_shape(shape, names, server, claimed)


def _render_shape(shape: ToolShape, names: ToolNames, server: ServerNames, claimed: ClassNames) -> _RenderedTool:
    return _RenderedTool(
        shape=shape,
        files={
            f"servers/{server.module}/{names.file}.py": servers_tree.render_tool(shape, names),
            f"mcptools/{server.module}/{names.module}.py": mcptools_tree.render_tool(shape),
        },
        node=node_tree.render_tool(shape, names, claimed),
    )
