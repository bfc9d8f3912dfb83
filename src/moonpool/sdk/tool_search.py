"""The tools of a session as applications see them: what there is, what fits a question, one definition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from moonpool.catalog.render import one_line
from moonpool.core.errors import InputError
from moonpool.sdk.argument_types import is_strings, must_be

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.catalog.catalog import Catalog
    from moonpool.core.json import JsonObject

Form = Literal["stub", "typescript", "json"]
"""How a definition is written: as Python sees the tool, with TypeScript's types, or as the server sent it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. SECURITY: name and description are the server's own words."""

    server: str  # its name in the configuration
    name: str  # as the server calls it
    path: str  # how code names it: `servers.git.git_log`
    description: str = ""  # on one line


def found(catalog: Catalog, queries: str | Sequence[str], server: str | None, limit: int) -> tuple[Tool, ...]:
    """The tools that fit best. Raises CatalogQueryError, NotInCatalogError, InputError."""
    if not isinstance(cast("object", queries), str) and not is_strings(queries):
        raise InputError("queries must be a question or a list of questions, each a string")
    must_be(server, str | None, "server", "the name of a server")
    must_be(limit, int, "limit", "a number")
    hits = catalog.search(queries, server=server, limit=limit)
    return tuple(
        Tool(
            server=hit.entry.server_id,
            name=hit.entry.tool_name,
            path=hit.path,
            description=one_line(hit.entry.description),
        )
        for hit in hits
    )


def listed(catalog: Catalog, server: str | None) -> tuple[Tool, ...]:
    """All tools, or one server's. Raises NotInCatalogError, InputError."""
    must_be(server, str | None, "server", "the name of a server")
    return tuple(
        Tool(
            server=entry.server_id,
            name=entry.tool_name,
            path=catalog.path(catalog.find(entry.server_id, entry.tool_name)),
            description=one_line(entry.description),
        )
        for entry in catalog.list(server)
    )


def definition(catalog: Catalog, path: str, form: Form) -> str | JsonObject:
    """All of one tool's definition. Raises NotInCatalogError, CatalogQueryError, InputError."""
    must_be(path, str, "the path of a tool", "a string")
    if (kept := catalog.find_kept(path)) is not None:
        return catalog.kept_definition(kept, form)
    tool = catalog.find_path(path)
    return catalog.definition(tool.server_id, tool.name, form)
