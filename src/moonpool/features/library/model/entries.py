"""The library: saved actions and skills, which stand in the catalog and in the wrapper tree beside the tools. Pure.

A saved action is Python code that worked once, kept with a typed `run` under a name; a skill is a folder with a
`SKILL.md`. `LibrarySource` is what a person kept, `LibraryEntry` what is shown of it:
`moonpool.features.library.model.actions` and `moonpool.features.library.model.skills` make one of the other,
`moonpool.features.library.table` keeps sources.

INVARIANT: every name and every path in an entry has passed the grammar of `moonpool.features.library.model.bounds`; the
paths name files below the root of the entry's kind, and no two entries of a library share one. SECURITY: code of an
action and files of a skill are a person's choice, but a model may have written them: nothing here runs or imports them,
and all of it is capped.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from moonpool.core.errors import InputError
from moonpool.core.json import JsonObject, JsonValue, digest_bytes, digest_json
from moonpool.features.library.model.bounds import (
    DESCRIPTION_CHARS_MAX,
    ENTRIES_MAX,
    KINDS,
    ROOTS,
    check_files,
    check_name,
    check_path,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.features.library.model.bounds import Kind


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
        folders = {path[:end] for path in paths for end, char in enumerate(path) if char == "/"}
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
