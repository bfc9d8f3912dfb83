"""Library -> `actions/` and `skills/` of a wrapper tree, and `library.json`, which the search in the sandbox reads.

Entries bring their own files; this module adds the packages around them and the pages that list them. A kind without
entries gets no folder.

SECURITY: files are below the folder of their kind in any case (`features.library.model.entries` checked the paths, and
generated pages never use a name of an entry). Descriptions are one line each and quoted in code.

How scripts of skills are imported: a skill's folder has the name that the format requires (`pdf-forms`), which is no
Python identifier. So the package `skills` finds its modules in `skills/.modules`: one small module per skill
(`pdf_forms`), whose submodules are the skill's files. Nothing is added to a skill's folder, and importing scripts does
not run a package that the skill contains.

SECURITY: text of a skill gets into source code only quoted.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from moonpool.features.library.model.bounds import KINDS, ROOTS
from moonpool.features.library.model.skills import GUEST_FOLDER, importable, module_name
from moonpool.wrappers.leaf_schemas import clip
from moonpool.wrappers.quoting import docstring, one_line, prose, quote

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
    """An entry's description as one line."""
    return clip(one_line(entry.description or entry.title), _ABOUT_CHARS_MAX)


def _packages(actions: Sequence[LibraryEntry]) -> Iterable[tuple[str, str]]:
    """`actions/__init__.py` and one for each category: a list as docstring, and lazy imports."""
    below: dict[str, dict[str, str]] = {"": {}}  # package -> name of a module or package in it -> description
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


_ROOT: Final = ROOTS["skill"]
_PACKAGE: Final = '''\
"""Skills: folders of instructions, scripts and files. INDEX.md lists them; `client.catalog` finds them by words."""

import importlib
import os

__path__ = [os.path.join(os.path.dirname(__file__), ".modules")]
__all__ = {names}


def __getattr__(name):
    if name in __all__:
        return importlib.import_module(f"{{__name__}}.{{name}}")
    raise AttributeError(f"there is no skill {{name!r}}; there are {{', '.join(__all__[:40])}}")


def __dir__():
    return sorted({{*globals(), *__all__}})
'''
_MODULE: Final = """\
{about}

import os

FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), {name})
__path__ = [FOLDER]
"""


def render_packages(skills: Sequence[LibraryEntry]) -> dict[str, bytes]:
    """The package `skills` and a module for each skill; empty without skills."""
    if not skills:
        return {}
    modules = {skill.name: module_name(skill.name) for skill in skills}
    files = {f"{_ROOT}/.modules/{modules[skill.name]}.py": _module(skill).encode() for skill in skills}
    files[f"{_ROOT}/__init__.py"] = _PACKAGE.format(names=repr(sorted(modules.values()))).encode()
    return files


def _module(skill: LibraryEntry) -> str:
    folder = f"{GUEST_FOLDER}/{skill.name}"
    names = importable(path.removeprefix(f"{skill.name}/") for path in skill.files)
    scripts = f"Its modules: {', '.join(names[:40])}." if names else "It has no modules."
    told = [
        prose(skill.description),
        f"The skill's files are in {folder}; SKILL.md there says how to use it. {scripts}",
    ]
    return _MODULE.format(about="\n".join(docstring(told, "")), name=quote(skill.name))
