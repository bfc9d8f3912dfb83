"""Saved actions and skills as entries of the catalog.

Inside the catalog an entry has a key like a tool, in a group whose name no server can have. Results show
`actions.github.top_commits` or `skills.pdf-forms`: servers are below `servers.`, so the path of a server called
`actions` differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.catalog.documents import KEPT_MARK, Document, Fields, parameter_texts
from moonpool.core.manifest import ToolDefinition
from moonpool.features.library.model.bounds import KINDS, ROOTS
from moonpool.features.library.model.skills import module_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonObject
    from moonpool.features.library.model.bounds import Kind
    from moonpool.features.library.model.entries import Library, LibraryEntry

GROUPS: Final[Mapping[Kind, str]] = {kind: KEPT_MARK + ROOTS[kind] for kind in KINDS}


def group_document(entry: LibraryEntry) -> Document:
    """The searchable text of an entry; never its code (I-103)."""
    category, _, name = entry.name.rpartition(".")
    names, descriptions = parameter_texts(entry.parameters)
    texts = Fields(
        name=name,
        title=entry.title,
        description=entry.description,
        server=category or ("" if entry.kind == "action" else ROOTS[entry.kind]),
        server_description="",
        parameter_names=names,
        parameter_descriptions=descriptions,
    )
    return Document(server_id=GROUPS[entry.kind], name=entry.name, fields=texts.clipped())


def as_tool(entry: LibraryEntry) -> ToolDefinition:
    """An entry in the form of a tool, for filters and lists. An action may make changing calls, so it
    is not read-only.
    """
    raw: JsonObject = {"name": entry.name, "description": entry.description, "inputSchema": entry.parameters}
    if entry.title:
        raw["title"] = entry.title
    if entry.kind == "skill":
        raw["annotations"] = {"readOnlyHint": True}
    return ToolDefinition(server_id=GROUPS[entry.kind], name=entry.name, raw=raw)


def kind_of(group: str) -> Kind | None:
    """The kind of a group; None for a server."""
    return next((kind for kind in KINDS if GROUPS[kind] == group), None)


def find_by_path(library: Library, path: str) -> LibraryEntry | None:
    """The entry at `actions.github.top_commits` or `skills.pdf-forms`; a skill also by its module,
    `skills.pdf_forms`.
    """
    root, _, name = path.partition(".")
    if root == ROOTS["skill"]:
        return library.find("skill", name) or next(
            (entry for entry in library.of("skill") if module_name(entry.name) == name), None
        )
    return library.find("action", name) if root == ROOTS["action"] else None


def entry_json(entry: LibraryEntry) -> JsonObject:
    """The definition of an entry for programs."""
    return {
        "kind": entry.kind,
        "name": entry.name,
        "path": entry.path,
        "description": entry.description,
        "parameters": entry.parameters,
        "digest": entry.digest,
    }


def library_line(library: Library) -> str:
    """The number of entries, as a line for the compact manifest; empty without any."""
    counts = [f"{ROOTS[kind]} ({len(library.of(kind))})" for kind in KINDS if library.of(kind)]
    return f"{', '.join(counts)}: saved code and guides; a search finds them too" if counts else ""
