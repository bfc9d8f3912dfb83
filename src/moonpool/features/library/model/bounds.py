"""What may stand in the library: two kinds, the grammar of their names and paths, and how much of everything. Pure.

Each check refuses with a sentence that says how to write it. The library itself is
`moonpool.features.library.model.entries`.
"""

from __future__ import annotations

import keyword
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from moonpool.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Kind: TypeAlias = Literal["action", "skill"]

KINDS: Final[tuple[Kind, ...]] = ("action", "skill")
ROOTS: Final[Mapping[Kind, str]] = MappingProxyType({"action": "actions", "skill": "skills"})
"""Folder of each kind in the wrapper tree, first part of its entries' paths in the catalog."""

ENTRIES_MAX: Final = 200  # of each kind
FILES_MAX: Final[Mapping[Kind, int]] = MappingProxyType({"action": 1, "skill": 100})
BYTES_MAX: Final[Mapping[Kind, int]] = MappingProxyType({"action": 64 * 1024, "skill": 1024**2})
LIBRARY_BYTES_MAX: Final = 16 * 1024**2
NAME_CHARS_MAX: Final = 64
DESCRIPTION_CHARS_MAX: Final = 1024
PATH_BYTES_MAX: Final = 400
ACTION_FILE: Final = "action.py"
"""The one file of an action's source."""

_IDENTIFIER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_SKILL_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_PART_BYTES_MAX: Final = 200
_PARTS_MAX: Final = 8


def check_name(kind: Kind, name: str) -> str:
    """`name`, if something of this kind may be called so. Raises InputError."""
    problem = _action_name_problem(name) if kind == "action" else _skill_name_problem(name)
    if problem:
        raise InputError(f"{name[:100]!r} is no name for {_an(kind)}: {problem}")
    return name


def clash(kind: Kind, name: str, others: Iterable[str]) -> str:
    """Why `name` cannot stand beside `others`; empty if it can. The same name again is no clash."""
    if kind == "skill":
        return ""
    folded, category = name.lower(), name.rpartition(".")[0]
    for other in others:
        other_category = other.rpartition(".")[0]
        if other != name and other.lower() == folded:
            return f"it differs from {other!r} in case only, and file systems may not tell them apart"
        if other_category != category and other_category.lower() == category.lower() and category and other_category:
            return f"its category differs from that of {other!r} in case only"
        if other_category.lower() == folded or (category and other.lower() == category.lower()):
            return f"{other!r} is there: a name cannot be an action and a category at the same time"
    return ""


def check_files(kind: Kind, files: Mapping[str, bytes], *, of: str) -> None:
    """Raise InputError unless these may be the files of a source of this kind."""
    if not files:
        raise InputError(f"{of} has no files")
    if len(files) > FILES_MAX[kind]:
        raise InputError(f"{of} has {len(files)} files; at most {FILES_MAX[kind]}")
    if kind == "action" and set(files) != {ACTION_FILE}:
        raise InputError(f"{of} is one file, {ACTION_FILE}")
    for path in files:
        check_path(path, of=of)
    if (size := sum(len(content) for content in files.values())) > BYTES_MAX[kind]:
        raise InputError(f"{of} is {size:,} bytes large; at most {BYTES_MAX[kind]:,}")


def check_path(path: str, *, of: str) -> None:
    """Raise InputError unless `path` names a file below a folder and nothing else.

    SECURITY: the wrapper tree is written by these paths.
    """
    parts = path.split("/")
    if (
        len(parts) > _PARTS_MAX
        or any(part in {"", ".", ".."} or not part.isprintable() or "\\" in part for part in parts)
        or any(len(part.encode("utf-8", "surrogatepass")) > _PART_BYTES_MAX for part in parts)
        or len(path.encode("utf-8", "surrogatepass")) > PATH_BYTES_MAX
    ):
        raise InputError(
            f"{of} has a file {path[:200]!r}: write its path with at most {_PARTS_MAX} printable parts between "
            "slashes, none of them . or .."
        )


def _action_name_problem(name: str) -> str:
    parts = name.split(".")
    if len(parts) > 2 or not all(_IDENTIFIER.fullmatch(part) for part in parts):
        return "write it as name or category.name, each of ASCII letters, digits and _, a letter first"
    if any(len(part) > NAME_CHARS_MAX for part in parts):
        return f"its parts are at most {NAME_CHARS_MAX} characters long"
    if word := next((part for part in parts if keyword.iskeyword(part)), ""):
        return f"{word!r} is a keyword of Python and cannot be imported"
    return ""


def _skill_name_problem(name: str) -> str:
    if len(name) > NAME_CHARS_MAX or not _SKILL_NAME.fullmatch(name):
        return f"write it with a-z, 0-9 and single - between them, at most {NAME_CHARS_MAX} characters"
    return ""


def _an(kind: Kind) -> str:
    return "an action" if kind == "action" else "a skill"
