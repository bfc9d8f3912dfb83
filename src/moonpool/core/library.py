"""The library: saved actions and skills, which stand in the catalog and in the wrapper tree beside the tools. Pure.

A saved action is Python code that worked once, kept with a typed `run` under a name; a skill is a folder with a
`SKILL.md`. `LibrarySource` is what a person kept, `LibraryEntry` what is shown of it: `moonpool.core.actions` and
`moonpool.core.skills` make one of the other, `moonpool.store.library` keeps sources.

INVARIANT: every name and every path in an entry has passed the grammar here; the paths name files below the root of
the entry's kind, and no two entries of a library share one.
SECURITY: code of an action and files of a skill are a person's choice, but a model may have written them: nothing here
runs or imports them, and all of it is capped.
"""

from __future__ import annotations

import base64
import binascii
import keyword
import re
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from moonpool.core.errors import InputError
from moonpool.core.json import JsonObject, JsonValue, digest_bytes, digest_json

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


@dataclass(frozen=True, kw_only=True)
class LibrarySource:
    """What a person kept: the code of an action (as `ACTION_FILE`), or the files of a skill's folder.

    Raises InputError when a name, path or size is out of bounds.
    """

    kind: Kind
    name: str
    files: Mapping[str, bytes]
    description: str = ""  # what the person said instead of what the files say
    run_id: str = ""  # the execution it was taken from, if it was

    def __post_init__(self) -> None:
        check_name(self.kind, self.name)
        check_files(self.kind, self.files, of=f"{self.kind} {self.name!r}")
        if len(self.description) > DESCRIPTION_CHARS_MAX:
            raise InputError(f"the description of {self.name!r} is longer than {DESCRIPTION_CHARS_MAX} characters")
        if not self.description.isprintable():
            raise InputError(f"the description of {self.name!r} is not one line of printable characters")
        object.__setattr__(self, "files", MappingProxyType(dict(sorted(self.files.items()))))

    @cached_property
    def digest(self) -> str:
        """Over name, description and files; where it came from does not matter."""
        files: JsonObject = {path: digest_bytes(content) for path, content in self.files.items()}
        return digest_json([self.kind, self.name, self.description, files])

    @property
    def size(self) -> int:
        return sum(len(content) for content in self.files.values())

    def to_json(self) -> JsonObject:
        return {
            "kind": self.kind,
            "name": self.name,
            "description": self.description,
            "runId": self.run_id,
            "digest": self.digest,
            "files": _encoded(self.files),
        }

    @classmethod
    def from_json(cls, data: JsonValue) -> LibrarySource:
        """Read what `to_json` wrote. Raises ValueError, also when the digest is another, and InputError."""
        texts = _texts(data, "kind", "name", "description", "runId", "digest")
        source = cls(
            kind=_kind(texts["kind"]),
            name=texts["name"],
            files=_decoded(cast("JsonObject", data).get("files")),
            description=texts["description"],
            run_id=texts["runId"],
        )
        if source.digest != texts["digest"]:
            raise ValueError("it was changed after it had been saved")
        return source


@dataclass(frozen=True, kw_only=True)
class LibraryEntry:
    """One action or skill as the catalog and the wrapper tree show it."""

    kind: Kind
    name: str
    title: str = ""
    description: str = ""
    parameters: JsonObject = field(default_factory=dict[str, JsonValue])  # JSON Schema of `run`; {} for a skill
    definition: str = ""  # the interface without its implementation (I-103); the body of a SKILL.md
    files: Mapping[str, bytes]  # below the folder of the kind
    digest: str  # of the source

    def __post_init__(self) -> None:
        check_name(self.kind, self.name)
        for path in self.files:
            check_path(path, of=self.name)

    @property
    def path(self) -> str:
        """How the catalog names it: `actions.github.top_commits`, `skills.pdf-forms`."""
        return f"{ROOTS[self.kind]}.{self.name}"

    @property
    def key(self) -> tuple[Kind, str]:
        return (self.kind, self.name)

    def to_json(self) -> JsonObject:
        return {**self._texts(), "parameters": self.parameters, "files": _encoded(self.files)}

    @classmethod
    def from_json(cls, data: JsonValue) -> LibraryEntry:
        """Read what `to_json` wrote. Raises ValueError and InputError."""
        texts = _texts(data, "kind", "name", "title", "description", "definition", "digest")
        parameters = cast("JsonObject", data).get("parameters")
        if not isinstance(parameters, dict):
            raise ValueError("not a library entry")  # noqa: TRY004  one error for every wrong shape
        return cls(
            kind=_kind(texts["kind"]),
            name=texts["name"],
            title=texts["title"],
            description=texts["description"],
            parameters=parameters,
            definition=texts["definition"],
            files=_decoded(cast("JsonObject", data).get("files")),
            digest=texts["digest"],
        )

    def _texts(self) -> JsonObject:
        return {
            "kind": self.kind,
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "definition": self.definition,
            "digest": self.digest,
        }

    @cached_property
    def shown_digest(self) -> str:
        """Over all that is shown of it; changes when the source does, and when it is read in another way."""
        files: JsonObject = {path: digest_bytes(content) for path, content in self.files.items()}
        return digest_json([self._texts(), self.parameters, files])


@dataclass(frozen=True, kw_only=True)
class Library:
    """All entries at one moment, by kind and name. Raises InputError for entries that cannot stand together."""

    entries: tuple[LibraryEntry, ...] = ()
    _by_key: Mapping[tuple[Kind, str], LibraryEntry] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        entries = tuple(sorted(self.entries, key=lambda entry: entry.key))
        object.__setattr__(self, "entries", entries)
        object.__setattr__(self, "_by_key", {entry.key: entry for entry in entries})
        paths = [f"{ROOTS[entry.kind]}/{path}".lower() for entry in entries for path in entry.files]
        folders = {path.rpartition("/")[0] for path in paths}
        if len(self._by_key) != len(entries) or len(set(paths)) != len(paths) or folders & set(paths):
            raise InputError("two entries of the library share a name or a path; remove or rename one of them")

    def __bool__(self) -> bool:
        return bool(self.entries)

    def find(self, kind: Kind, name: str) -> LibraryEntry | None:
        return self._by_key.get((kind, name))

    def of(self, kind: Kind) -> tuple[LibraryEntry, ...]:
        return tuple(entry for entry in self.entries if entry.kind == kind)

    @cached_property
    def digest(self) -> str:
        """Changes when, and only when, anything that is shown of an entry does."""
        shown: JsonObject = {entry.path: entry.shown_digest for entry in self.entries}
        return digest_json(shown)

    def to_json(self) -> list[JsonValue]:
        return [entry.to_json() for entry in self.entries]

    @classmethod
    def from_json(cls, data: JsonValue) -> Library:
        """Read what `to_json` wrote. Raises ValueError and InputError."""
        if not isinstance(data, list) or len(data) > ENTRIES_MAX * len(KINDS):
            raise ValueError("not a library")
        return cls(entries=tuple(LibraryEntry.from_json(item) for item in data))


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


def _kind(text: str) -> Kind:
    if text not in KINDS:
        raise ValueError(f"there is no kind {text[:40]!r}")
    return text


def _texts(data: JsonValue, *names: str) -> dict[str, str]:
    texts = {name: data.get(name) for name in names} if isinstance(data, dict) else {}
    if not texts or not all(isinstance(text, str) for text in texts.values()):
        raise ValueError("not an entry of a library")
    return cast("dict[str, str]", texts)


def _encoded(files: Mapping[str, bytes]) -> JsonObject:
    return {path: base64.b64encode(content).decode() for path, content in files.items()}


def _decoded(data: JsonValue) -> dict[str, bytes]:
    if not isinstance(data, dict):
        raise ValueError("not files of a library")  # noqa: TRY004  one error for every wrong shape
    files: dict[str, bytes] = {}
    for path, content in data.items():
        if not isinstance(content, str):
            raise ValueError("not a file of a library")  # noqa: TRY004
        try:
            files[path] = base64.b64decode(content, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError(f"the file {path[:200]!r} is damaged") from None
    return files
