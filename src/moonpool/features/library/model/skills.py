"""Skills: a folder with `SKILL.md` (the open Agent Skills format) becomes an entry of the library. Pure.

A skill is shown in three steps: name and description wherever tools are listed, the text of `SKILL.md` when somebody
reads its definition, and its other files when code opens them. `allowed-tools` is read and shown to the person only.

SECURITY: a skill has no rights. Its text is shown to a model only when that asks for it, with what does not print made
visible; its scripts run where all code runs, and their tool calls are asked about like any other.
"""

from __future__ import annotations

import keyword
import unicodedata
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from moonpool.code_reading.first_look import refuse_other_encoding
from moonpool.core.errors import InputError
from moonpool.core.hidden_characters import is_seen, without_looks
from moonpool.core.naming import safe_identifier
from moonpool.features.library.model.bounds import DESCRIPTION_CHARS_MAX, ROOTS, check_files, check_name
from moonpool.features.library.model.entries import LibraryEntry, LibrarySource
from moonpool.features.library.model.front_matter import read_frontmatter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from moonpool.core.yaml_strings import Value

SKILL_FILE: Final = "SKILL.md"
SKILL_FILE_BYTES_MAX: Final = 256 * 1024
BODY_CHARS_MAX: Final = 40_000
"""Of a `SKILL.md`'s text in a definition; the file in the sandbox is whole."""
FILES_LISTED_MAX: Final = 40
TEXT_CHARS_MAX: Final = 500  # license, compatibility, each tool of allowed-tools, each text of metadata
COMPILED: Final = (".pyc", ".pyo", ".so", ".pyd")
TEXTS_MAX: Final = 50  # tools, members of metadata
GUEST_FOLDER: Final = f"/wrappers/current/{ROOTS['skill']}"
"""Where code in a sandbox finds the folders of all skills."""

_KEYS: Final = frozenset({"name", "description"})
_OPTIONAL_KEYS: Final = frozenset({"license", "compatibility", "allowed-tools", "metadata"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillHead:
    """What a `SKILL.md` says of its skill, and its text."""

    name: str
    description: str
    license: str = ""
    compatibility: str = ""
    allowed_tools: tuple[str, ...] = ()  # in its author's words; grants nothing
    metadata: Mapping[str, str]
    body: str


def skill_source(files: Mapping[str, bytes], *, place: str) -> LibrarySource:
    """What a person keeps of a skill's folder. `place` stands in errors. Raises InputError."""
    check_files("skill", files, of=place)
    source = LibrarySource(kind="skill", name=read_head(files, place=place).name, files=files)
    read_skill(source)  # what could not be shown later is refused now
    return source


def read_skill(source: LibrarySource) -> LibraryEntry:
    """A kept skill as catalog and sandbox show it. Raises InputError."""
    head = read_head(source.files, place=f"skill {source.name!r}")
    if head.name != source.name:
        raise InputError(f"skill {source.name!r} calls itself {head.name!r} in its {SKILL_FILE}; add it again")
    _check_together(source.files, f"skill {source.name!r}")
    _check_modules(source.files, f"skill {source.name!r}")
    return LibraryEntry(
        kind="skill",
        name=head.name,
        description=readable(source.description or head.description).strip(),
        definition=_definition(head, source.files),
        files={f"{head.name}/{path}": content for path, content in source.files.items()},
        digest=source.digest,
    )


def read_head(files: Mapping[str, bytes], *, place: str) -> SkillHead:
    """Read `SKILL.md` among a skill's files. Raises InputError."""
    content = files.get(SKILL_FILE)
    if content is None:
        near = next((path for path in sorted(files) if path.rpartition("/")[2].lower() == SKILL_FILE.lower()), "")
        hint = f"; there is {near!r}" if near else ""
        raise InputError(f"{place} has no {SKILL_FILE}, which names and describes a skill{hint}")
    source = f"{place}: {SKILL_FILE}"
    if len(content) > SKILL_FILE_BYTES_MAX:
        raise InputError(
            f"{source} is {len(content):,} bytes large, at most {SKILL_FILE_BYTES_MAX:,}; move parts into further files"
        )
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{source} is not UTF-8 (byte {error.start:,}); save it as UTF-8") from None
    found = read_frontmatter(text, source=source, wanted=_KEYS, optional=_OPTIONAL_KEYS)
    name = _required(found.values, found.keys, "name", source)
    check_name("skill", name)
    return SkillHead(
        name=name,
        description=_description(_required(found.values, found.keys, "description", source), source),
        license=_text(found.values.get("license")),
        compatibility=_text(found.values.get("compatibility")),
        allowed_tools=_texts(found.values.get("allowed-tools")),
        metadata=_members(found.values.get("metadata")),
        body=found.body.strip("\n"),
    )


def module_name(name: str) -> str:
    """`pdf-forms` -> `pdf_forms`, as in `from skills.pdf_forms.scripts import fill`.

    INVARIANT: two names never give the same module: names have no `_` and neither begin nor end with `-`.
    """
    return safe_identifier(name.replace("-", "_"), original=name)


def importable(paths: Iterable[str]) -> tuple[str, ...]:
    """The modules among a skill's files, as they are named below its own: `scripts/fill.py` -> `scripts.fill`."""
    modules: list[str] = []
    for path in sorted(paths):
        parts = path.removesuffix(".py").split("/")
        if path.endswith(".py") and all(part.isidentifier() and not keyword.iskeyword(part) for part in parts):
            modules.append(".".join(parts))
    return tuple(modules)


def readable(text: str) -> str:
    r"""`text` with its line ends and spaces as they are, and without anything that acts on a reader unseen.

    Control, format and unassigned characters (escape sequences, bidirectional overrides, tags), fillers and variation
    selectors are written out as `\x1b`; odd spaces are plain ones, a tab is four. The selector behind an emoji goes.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(char if char == "\n" or is_seen(char) else _visible(char) for char in without_looks(text))


def _visible(char: str) -> str:
    if char == "\t":
        return "    "
    if unicodedata.category(char) == "Zs":
        return " "
    return char.encode("unicode_escape").decode()


def _check_together(files: Mapping[str, bytes], place: str) -> None:
    """SECURITY: what is one file for one file system must not be two for us, and no file may be another's folder."""
    seen: dict[str, str] = {}
    for path in files:
        folded = unicodedata.normalize("NFKC", path).casefold()
        other = seen.setdefault(folded, path)
        if other != path:
            raise InputError(f"{place}: {other!r} and {path!r} are the same name to some file systems; rename one")
    for folded, path in seen.items():
        parts = folded.split("/")
        for end in range(1, len(parts)):
            if file := seen.get("/".join(parts[:end])):
                raise InputError(f"{place}: {file!r} cannot be a file and the folder of {path!r}; rename one")


def _check_modules(files: Mapping[str, bytes], place: str) -> None:
    """SECURITY: what is imported is what a person or a preview reads: no compiled code, one file for each module."""
    for path, content in files.items():
        if path.endswith(COMPILED):
            raise InputError(f"{place}: {path!r} is compiled code, which cannot be reviewed; remove it")
        if path.endswith(".py"):
            refuse_other_encoding(content, of=f"{place}: {path!r}")
        if path.endswith("/__init__.py") and (module := f"{path.removesuffix('/__init__.py')}.py") in files:
            raise InputError(f"{place}: {path!r} would be imported in the place of {module!r}; rename one")


def _required(values: Mapping[str, Value], keys: tuple[str, ...], key: str, source: str) -> str:
    value = values.get(key)
    if isinstance(value, str) and value.strip():
        return value.strip()
    if value:
        raise InputError(f"{source}: `{key}` must be one string, not a list or a mapping")
    other = next((one for one in keys if one != key and one.lower() == key), "")
    hint = f"; it has `{other[:40]}`, write that in lower case" if other else f"; add a line `{key}: …` to its head"
    raise InputError(f"{source} says nothing under `{key}`{hint}")


def _description(text: str, source: str) -> str:
    if len(text) > DESCRIPTION_CHARS_MAX:
        raise InputError(
            f"{source}: the description has {len(text):,} characters, at most {DESCRIPTION_CHARS_MAX:,};"
            " move the rest into the text below"
        )
    return text


def _text(value: Value | None) -> str:
    return _short(value) if isinstance(value, str) else ""


def _texts(value: Value | None) -> tuple[str, ...]:
    words = value.replace(",", " ").split() if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(_short(word) for word in words[:TEXTS_MAX])


def _members(value: Value | None) -> Mapping[str, str]:
    members = list(value.items())[:TEXTS_MAX] if isinstance(value, dict) else []
    return MappingProxyType({_short(key): _short(text) for key, text in members})


def _short(text: str) -> str:
    text = " ".join(readable(text).split())
    return text if len(text) <= TEXT_CHARS_MAX else text[: TEXT_CHARS_MAX - 1] + "…"


def _definition(head: SkillHead, files: Mapping[str, bytes]) -> str:
    lines = [f"skill {head.name}: its files are in {GUEST_FOLDER}/{head.name}, and paths below are relative to it"]
    others = [path for path in files if path != SKILL_FILE]
    if others:
        listed = ", ".join(f"{path} ({_size(len(files[path]))})" for path in others[:FILES_LISTED_MAX])
        more = f" and {len(others) - FILES_LISTED_MAX} more" if len(others) > FILES_LISTED_MAX else ""
        lines.append(f"files: {listed}{more}")
    if modules := importable(files):
        package, _, module = f"skills.{module_name(head.name)}.{modules[0]}".rpartition(".")
        lines.append(f"scripts can be imported: from {package} import {module}")
    if head.compatibility:
        lines.append(f"compatibility: {head.compatibility}")
    body = readable(head.body)
    if len(body) > BODY_CHARS_MAX:
        body = f"{body[:BODY_CHARS_MAX].rstrip()}\n[… the rest is in {GUEST_FOLDER}/{head.name}/{SKILL_FILE}]"
    return "\n".join(lines) + (f"\n\n{body}" if body.strip() else "")


def _size(count: int) -> str:
    return f"{count} bytes" if count < 1024 else f"{count / 1024:.0f} KiB"
