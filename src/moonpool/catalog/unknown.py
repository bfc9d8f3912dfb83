"""What the catalog does not hold, as errors that name what is near it.

SECURITY: the asked name and the servers' own names are untrusted text: they are cut short and put on one line.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from moonpool.catalog.errors import NotInCatalogError
from moonpool.catalog.render import NAME_CHARS_MAX, one_line

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from moonpool.core.library_bounds import Kind
    from moonpool.core.manifest import ServerListing

_SHOWN_MAX = 10  # of all that there are, where nothing is near


def unknown_server(name: str, server_ids: Collection[str]) -> NotInCatalogError:
    """For a server that is not in the session's manifest."""
    near = _near(name, server_ids)
    known = ", ".join(one_line(item) for item in (near or sorted(server_ids)[:_SHOWN_MAX])) or "none"
    word = "near names" if near else "known servers"
    return NotInCatalogError(f"no server {one_line(name)!r} in this session; {word}: {known}", near=near)


def unknown_tool(server: ServerListing, name: str) -> NotInCatalogError:
    """For a tool that its server does not have."""
    near = _near(name, [tool.name for tool in server.tools])
    remedy = f"near names: {', '.join(one_line(item) for item in near)}" if near else "search for what it should do"
    return NotInCatalogError(
        f"server {one_line(server.server_id)!r} has no tool {one_line(name)!r}; {remedy}", near=near
    )


def unknown_entry(kind: Kind, name: str, names: Sequence[str]) -> NotInCatalogError:
    """For a saved action or skill that is not kept, while others of its kind are."""
    near = _near(name, names)
    shown = ", ".join(near or names[:_SHOWN_MAX])
    word = "near names" if near else "there are"
    return NotInCatalogError(f"no {kind} {one_line(name)!r} is kept here; {word}: {shown}", near=near)


def _near(name: str, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(get_close_matches(name[:NAME_CHARS_MAX], names, n=3, cutoff=0.5))
