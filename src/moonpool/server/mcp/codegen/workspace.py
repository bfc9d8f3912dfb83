"""The workspace of a caller: a stored thread, and which paths are in it.

SECURITY: paths are names in a stored tree and nothing else: none of them is ever opened on this machine. A link is an
entry whose text nobody follows, and a path below one names nothing.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import InputError
from moonpool.features.storage.model import THREAD_ID_CHARS_MAX, UnknownTreeError, checked_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonValue
    from moonpool.features.storage.base import OrganisationTrees, Snapshot
    from moonpool.features.storage.model import Entry, TreeName
    from moonpool.redaction.redactor import Redactor

ROOTS: Final = ("/workspace", "/home/baponi")
"""Where code sees the thread; an absolute path begins with one of them."""
DEFAULT_THREAD: Final = "workspace"
_KEY: Final = "key:"
_OTHER: Final = re.compile(r"[^a-zA-Z0-9_-]")


class ToolError(Exception):
    """What the user of a tool can put right, in words for a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """What tools work on."""

    thread: TreeName
    trees: OrganisationTrees
    redactor: Redactor

    async def file(self, given: str) -> tuple[Snapshot, Entry]:
        """The file that a caller names, as it is now. Raises ToolError, StorageError, DatabaseError."""
        path = inside(given)
        try:
            snapshot = await self.trees.snapshot(self.thread)
        except UnknownTreeError:  # nothing has been put into it
            raise ToolError(f"file not found: {given}") from None
        entry = snapshot.tree.find(path) if path else None
        if entry is None:
            is_folder = not path or any(snapshot.tree.below(path))
            raise ToolError(f"{given} is a directory" if is_folder else f"file not found: {given}")
        if entry.kind == "folder":
            raise ToolError(f"{given} is a directory")
        if entry.kind == "link":
            raise ToolError(f"{given} is a symbolic link, which is not followed; name the file itself")
        return snapshot, entry


def inside(given: str) -> str:
    """The path below the workspace's root ("" is the root itself) that `given` names. Raises ToolError."""
    path = given
    if given.startswith("/"):
        path = posixpath.normpath(given)
        root = next((one for one in ROOTS if path == one or path.startswith(f"{one}/")), None)
        if root is None:
            raise ToolError("path is outside workspace root")
        path = path[len(root) + 1 :]
    path = posixpath.normpath(path) if path else "."
    if path == ".." or path.startswith("../"):
        raise ToolError("path is outside workspace root")
    if path == ".":
        return ""
    try:
        return checked_path(path)
    except InputError as error:
        raise ToolError(str(error)) from None


def thread_of(principal: str, named: str | None) -> str:
    """The thread that is a caller's workspace: the one that its key names, else one of the key, else `workspace`.

    Keys share the threads of their organisation, so each has one of its own; users' threads are their own anyway.
    """
    if named is not None:
        return named
    if not principal.startswith(_KEY):
        return DEFAULT_THREAD
    return _OTHER.sub("-", principal.removeprefix(_KEY)).lstrip("-_")[:THREAD_ID_CHARS_MAX] or DEFAULT_THREAD


def text_argument(arguments: Mapping[str, JsonValue], name: str) -> str:
    """A text that a tool needs. Raises ToolError."""
    given = arguments.get(name)
    if not isinstance(given, str) or not given:
        raise ToolError(f'required argument "{name}" is missing or no text')
    return given


def number_argument(arguments: Mapping[str, JsonValue], name: str, default: int) -> int:
    """A whole number; `default` where none is given. Raises ToolError."""
    given = arguments.get(name)
    if given is None:
        return default
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ToolError(f'argument "{name}" must be a number')
    return int(given)
