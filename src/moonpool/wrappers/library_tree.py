"""Library -> `actions/` and `skills/` of a wrapper tree, and `library.json`, which the search in the sandbox reads.

Entries bring their own files; here come the packages around them and the pages that list them. Without entries of a
kind there is no folder of it.

SECURITY: files lie below the folder of their kind, whatever an entry says (`features.library.model.entries` checked the
paths, and the pages here never take a name that is theirs). Descriptions are one line each and quoted where they are
code.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from moonpool.features.library.model.bounds import KINDS, ROOTS
from moonpool.wrappers.leaf_schemas import clip
from moonpool.wrappers.quoting import docstring, one_line, quote
from moonpool.wrappers.skills_tree import render_packages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.features.library.model.bounds import Kind
    from moonpool.features.library.model.entries import Library, LibraryEntry

_ABOUT_CHARS_MAX: Final = 200
_HEADS: Final[Mapping[Kind, str]] = {
    "action": "# Saved actions\n\nCode that worked, to be imported: `from actions.category.name import run`. "
    "The .pyi file beside each says how it is called.",
    "skill": "# Skills\n\nGuides, each in a folder with a SKILL.md, to be read before work of that kind.",
}


def render_library(library: Library) -> dict[str, bytes]:
    """Files by relative POSIX path; none without entries."""
    files: dict[str, bytes] = {}
    for kind in KINDS:
        entries = library.of(kind)
        for entry in entries:
            files.update({f"{ROOTS[kind]}/{path}": content for path, content in entry.files.items()})
        if entries:
            lines = [f"- `{entry.path}`: {about(entry)}" for entry in entries]
            files[f"{ROOTS[kind]}/INDEX.md"] = "\n".join([_HEADS[kind], "", *lines, ""]).encode()
    if actions := library.of("action"):
        files.update({path: text.encode() for path, text in _packages(actions)})
    files.update(render_packages(library.of("skill")))
    if library:
        listed: list[JsonValue] = [_listed(entry) for entry in library.entries]
        files["library.json"] = json.dumps({"version": 1, "entries": listed}, separators=(",", ":")).encode()
    return files


def about(entry: LibraryEntry) -> str:
    """What an entry is for, as one line."""
    return clip(one_line(entry.description or entry.title), _ABOUT_CHARS_MAX)


def _packages(actions: Sequence[LibraryEntry]) -> Iterable[tuple[str, str]]:
    """`actions/__init__.py` and one for each category: a list as docstring, and lazy imports."""
    below: dict[str, dict[str, str]] = {"": {}}  # package -> name of a module or package in it -> what it is
    for entry in actions:
        category, _, name = entry.name.rpartition(".")
        below.setdefault(category, {})[name] = about(entry)
        if category:
            below[""].setdefault(category, "a category")
    for category, names in below.items():
        package = f"actions.{category}" if category else "actions"
        lines = [f"{name}: {text}" for name, text in sorted(names.items())]
        head = docstring(["Saved actions.", "\n".join(lines)], "")
        source = [
            *head,
            "",
            "import importlib",
            "",
            f"__all__ = [{', '.join(quote(name) for name in sorted(names))}]",
            "",
            "",
            "def __getattr__(name):",
            "    if name in __all__:",
            '        return importlib.import_module(f"{__name__}.{name}")',
            f"    raise AttributeError(f\"{package} has no {{name!r}}; it has: {{', '.join(__all__)}}\")",
            "",
            "",
            "def __dir__():",
            "    return list(__all__)",
        ]
        yield f"{package.replace('.', '/')}/__init__.py", "\n".join(source) + "\n"


def _listed(entry: LibraryEntry) -> JsonObject:
    properties = entry.parameters.get("properties")
    parameters: list[JsonValue] = [
        {"name": name, "description": _description(schema)}
        for name, schema in (properties.items() if isinstance(properties, dict) else ())
    ]
    return {
        "kind": entry.kind,
        "path": entry.path,
        "name": entry.name,
        "summary": about(entry),
        "parameters": parameters,
        "definition": entry.definition,
    }


def _description(schema: JsonValue) -> str:
    text = schema.get("description") if isinstance(schema, dict) else ""
    return clip(one_line(text), _ABOUT_CHARS_MAX) if isinstance(text, str) else ""
