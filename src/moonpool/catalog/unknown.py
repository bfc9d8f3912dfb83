"""Errors for unknown names, with similar names.

SECURITY: the asked name and the servers' own names are untrusted text: they are truncated to one line.
"""

from __future__ import annotations

from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING

from moonpool.catalog.errors import NotInCatalogError
from moonpool.catalog.render import NAME_CHARS_MAX, one_line

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from moonpool.core.manifest import ServerListing
    from moonpool.features.library.model.bounds import Kind

_COMPARED_MAX = 2000  # names of tools; a comparison takes some 20 us
_SHOWN_MAX = 10  # names shown if none is similar


def unknown_server(
    name: str, server_ids: Collection[str], tool: str = "", paths: Mapping[str, str] | None = None
) -> NotInCatalogError:
    """For an unknown server, or a `tool` of it."""
    near = _near(name, server_ids)
    if tool and not near and paths and (elsewhere := _near(tool, islice(paths, _COMPARED_MAX))):
        return _elsewhere(f"there is no server {one_line(name)!r}", elsewhere[0], paths)
    known = ", ".join(one_line(item) for item in (near or sorted(server_ids)[:_SHOWN_MAX])) or "none"
    word = "near names" if near else "known servers"
    return NotInCatalogError(f"there is no server {one_line(name)!r}; {word}: {known}", near=near)


def unknown_tool(server: ServerListing, name: str, paths: Mapping[str, str]) -> NotInCatalogError:
    """For an unknown tool of a known server; `paths` are those of all tools, by name."""
    near = _near(name, [tool.name for tool in server.tools])
    problem = f"server {one_line(server.server_id)!r} has no tool {one_line(name)!r}"
    if near:
        return NotInCatalogError(f"{problem}; near names: {_listed(near)}", near=near)
    return _elsewhere(problem, name, paths)


def bare_name(name: str, paths: Mapping[str, str], same: Sequence[str]) -> NotInCatalogError:
    """For a path that is no `server.tool`; `same` are the tools with exactly this name, if there are several."""
    if same:
        return NotInCatalogError(f"several tools are called {one_line(name)!r}: {_listed(same)}", near=tuple(same))
    return _elsewhere(f"no tool is called {one_line(name)!r}", name, paths)


def _elsewhere(problem: str, name: str, paths: Mapping[str, str]) -> NotInCatalogError:
    near = tuple(paths[one] for one in _near(name, islice(paths, _COMPARED_MAX)))
    remedy = f"near names: {_listed(near)}" if near else "search for what it should do"
    return NotInCatalogError(f"{problem}; {remedy}", near=near)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(one_line(name) for name in names[:_SHOWN_MAX])


def unknown_entry(kind: Kind, name: str, names: Sequence[str]) -> NotInCatalogError:
    """For an unknown saved action or skill, if there are others of its kind."""
    near = _near(name, names)
    shown = ", ".join(near or names[:_SHOWN_MAX])
    word = "near names" if near else "there are"
    return NotInCatalogError(f"no {kind} {one_line(name)!r} is kept here; {word}: {shown}", near=near)


def _near(name: str, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(get_close_matches(name[:NAME_CHARS_MAX], names, n=3, cutoff=0.5))
