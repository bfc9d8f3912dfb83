"""What changed between two definitions of one tool, in types, and how grave each change is. Pure.

A server may change its tools at any time, and people once agreed to what they saw. So each difference becomes a typed
`Change` that is harmless or dangerous, with the reason. Dangerous is what lets code that worked do something else or
fail (a new required parameter, another type or default), what policy and people go by (a behaviour hint), and a text
that begins to name other tools, by which servers steer models. All else is harmless. Schemas are compared by
`moonpool.features.drift.model.schemas`; what follows from a diff is decided in
`moonpool.features.drift.model.acceptance`.

INVARIANT: a diff is empty exactly when the digests are equal, and `apply_diff(old, diff)` has the digest of the new
one: nothing that changed goes unmentioned.
SECURITY: definitions are untrusted text; walks are bounded, and what is too large or too deep to compare is dangerous.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

from moonpool.core.json import JsonObject, JsonValue, digest_json
from moonpool.features.drift.model.schemas import SchemaChange, compare_schemas

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from moonpool.core.manifest import ToolDefinition

_HINT_DEFAULTS: Final[Mapping[str, bool]] = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
"""As MCP defines them for a tool that says nothing."""

_NAME_LENGTH_PLAIN: Final = 3
"""Shorter names are words of any sentence; they count only with their server in front."""
_STRING_COUNT_MAX: Final = 20_000
_WORD: Final = re.compile(r"[\w-]+(?:[./:][\w-]+)*")  # linear: each character is taken once


class Severity(StrEnum):
    HARMLESS = "harmless"
    DANGEROUS = "dangerous"


class ChangeKind(StrEnum):
    """Closed set; the CLI and the audit trail show it."""

    TOOL_ADDED = "tool_added"
    TOOL_REMOVED = "tool_removed"
    DESCRIPTION = "description"
    TITLE = "title"
    ANNOTATION = "annotation"
    ANNOTATION_FLIPPED = "annotation_flipped"
    PARAMETER_ADDED = "parameter_added"
    PARAMETER_REQUIRED = "parameter_required"
    PARAMETER_OPTIONAL = "parameter_optional"
    PARAMETER_REMOVED = "parameter_removed"
    PARAMETER_DESCRIPTION = "parameter_description"
    TYPE_CHANGED = "type_changed"
    ENUM_NARROWED = "enum_narrowed"
    ENUM_WIDENED = "enum_widened"
    DEFAULT_CHANGED = "default_changed"
    CONSTRAINT = "constraint"
    INCOMPARABLE = "incomparable"
    OUTPUT_SCHEMA = "output_schema"
    NAMES_TOOLS = "names_tools"
    NO_RECORD = "no_record"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference. `place` is where, e.g. a parameter's path; `reason` says why it is grave or not."""

    kind: ChangeKind
    severity: Severity
    place: str
    reason: str

    def to_json(self) -> JsonObject:
        return {
            "kind": str(self.kind),
            "severity": str(self.severity),
            "place": self.place,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One difference in the JSON itself: the value at `path` is now `after`, or `gone`."""

    path: tuple[str, ...]
    after: JsonValue = None
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDiff:
    """How one tool differs. `before` or `after` is empty for one that came or went."""

    server_id: str
    tool_name: str
    before_digest: str = ""
    after_digest: str = ""
    changes: tuple[Change, ...] = ()
    edits: tuple[Edit, ...] = ()

    @property
    def dangerous(self) -> bool:
        return any(change.severity is Severity.DANGEROUS for change in self.changes)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is dangerous; empty when it is not."""
        return tuple(change.reason for change in self.changes if change.severity is Severity.DANGEROUS)

    def __bool__(self) -> bool:
        return bool(self.changes)


class ToolNames:
    """The names of all tools there are, to find them in texts. Sorted out at first use: mostly nothing changed."""

    def __init__(self, keys: Iterable[tuple[str, str]]) -> None:
        self._keys = frozenset(keys)

    @cached_property
    def _by_word(self) -> dict[str, set[tuple[str, str]]]:
        by_word: dict[str, set[tuple[str, str]]] = {}
        for server_id, name in self._keys:
            plain = [name] if len(name) >= _NAME_LENGTH_PLAIN else []
            for word in (*plain, *(f"{server_id}{mark}{name}" for mark in "./:"), f"{server_id}__{name}"):
                by_word.setdefault(word.casefold(), set()).add((server_id, name))
        return by_word

    def named_in(self, raw: JsonObject) -> frozenset[tuple[str, str]]:
        """Tools that any text of a definition but its name mentions, by whole words, whatever their case."""
        found: set[tuple[str, str]] = set()
        for text in _strings({member: value for member, value in raw.items() if member != "name"}):
            for match in _WORD.finditer(text.casefold()):
                word = match.group()
                found |= self._by_word.get(word, set())
                for part in re.split(r"[./:]", word):
                    found |= self._by_word.get(part, set())
        return frozenset(found)


def diff_tool(before: ToolDefinition, after: ToolDefinition, names: ToolNames) -> ToolDiff:
    """What changed from `before` to `after`, which have the same key."""
    edits = tuple(_edits(before.raw, after.raw, ()))
    changes = tuple(_changes(before, after, names)) if edits else ()
    if edits and not changes:
        changes = (_harmless(ChangeKind.OTHER, _pointer(edits[0].path), "only details beside the schema changed"),)
    return ToolDiff(
        server_id=after.server_id,
        tool_name=after.name,
        before_digest=before.digest,
        after_digest=after.digest,
        changes=changes,
        edits=edits,
    )


def diff_added(tool: ToolDefinition, names: ToolNames) -> ToolDiff:
    """A tool that was not there. It is dangerous when it names tools of other servers: that is how calls are lured."""
    changes = [_harmless(ChangeKind.TOOL_ADDED, "", "the tool is new")]
    if foreign := sorted(key for key in names.named_in(tool.raw) if key[0] != tool.server_id and key != tool.key):
        changes.append(_names_tools(foreign, "the new tool names tools of other servers"))
    return ToolDiff(server_id=tool.server_id, tool_name=tool.name, after_digest=tool.digest, changes=tuple(changes))


def diff_removed(tool: ToolDefinition) -> ToolDiff:
    """A tool that is gone. Harmless: nothing is left to call, and code that calls it is told so."""
    change = _harmless(ChangeKind.TOOL_REMOVED, "", "the tool is gone; calls get UnknownTool")
    return ToolDiff(server_id=tool.server_id, tool_name=tool.name, before_digest=tool.digest, changes=(change,))


def diff_unrecorded(tool: ToolDefinition) -> ToolDiff:
    """A tool of which it is not known any more what was accepted."""
    reason = "the record of what was accepted is damaged, so nothing can be compared"
    change = Change(kind=ChangeKind.NO_RECORD, severity=Severity.DANGEROUS, place="", reason=reason)
    return ToolDiff(server_id=tool.server_id, tool_name=tool.name, after_digest=tool.digest, changes=(change,))


def apply_diff(raw: JsonObject, diff: ToolDiff) -> JsonObject:
    """`raw` with every edit of `diff` made."""
    result = copy.deepcopy(raw)
    for edit in diff.edits:
        at: JsonObject = result
        for step in edit.path[:-1]:
            inner = at[step]
            assert isinstance(inner, dict), "edits go through objects only"
            at = inner
        if edit.gone:
            del at[edit.path[-1]]
        else:
            at[edit.path[-1]] = edit.after
    return result


def _changes(before: ToolDefinition, after: ToolDefinition, names: ToolNames) -> Iterator[Change]:
    old, new = before.raw, after.raw
    yield from _plain_texts(old, new)
    yield from _annotations(before.annotations, after.annotations, same=_same(old, new, "annotations"))
    for change in compare_schemas(before.input_schema, after.input_schema):
        yield _of_schema(change)
    if not _same(old, new, "outputSchema"):
        yield _harmless(ChangeKind.OUTPUT_SCHEMA, "", "the declared shape of results changed; wrappers follow it")
    known = {"name", "title", "description", "annotations", "inputSchema", "outputSchema"}
    for member in sorted({*old, *new} - known):
        if not _same(old, new, member):
            yield _harmless(ChangeKind.OTHER, member[:80], f"member {member[:80]!r} changed")
    if fresh := sorted(key for key in names.named_in(new) - names.named_in(old) if key != after.key):
        yield _names_tools(fresh, "its description now names other tools")


def _plain_texts(old: JsonObject, new: JsonObject) -> Iterator[Change]:
    if not _same(old, new, "description"):
        yield _harmless(ChangeKind.DESCRIPTION, "", "the description changed")
    if not _same(old, new, "title"):
        yield _harmless(ChangeKind.TITLE, "", "the title changed")


def _annotations(old: JsonObject, new: JsonObject, *, same: bool) -> Iterator[Change]:
    flipped = False
    for hint, default in _HINT_DEFAULTS.items():
        was, now = _hint(old, hint, default=default), _hint(new, hint, default=default)
        if was != now:
            flipped = True
            reason = f"{hint} went from {_word(was)} to {_word(now)}; rules and people may decide otherwise"
            yield Change(kind=ChangeKind.ANNOTATION_FLIPPED, severity=Severity.DANGEROUS, place=hint, reason=reason)
    if not same and not flipped:
        yield _harmless(ChangeKind.ANNOTATION, "", "annotations changed, but no behaviour hint")


def _hint(annotations: JsonObject, name: str, *, default: bool) -> bool:
    value = annotations.get(name)
    return value if isinstance(value, bool) else default


def _word(value: bool) -> str:
    return "true" if value else "false"


def _of_schema(change: SchemaChange) -> Change:
    severity = Severity.DANGEROUS if change.dangerous else Severity.HARMLESS
    return Change(kind=ChangeKind(change.kind), severity=severity, place=change.place, reason=change.reason)


def _names_tools(keys: list[tuple[str, str]], what: str) -> Change:
    shown = ", ".join(f"{server}.{name}"[:120] for server, name in keys[:3])
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return Change(kind=ChangeKind.NAMES_TOOLS, severity=Severity.DANGEROUS, place="", reason=f"{what}: {shown}{more}")


def _harmless(kind: ChangeKind, place: str, reason: str) -> Change:
    return Change(kind=kind, severity=Severity.HARMLESS, place=place, reason=reason)


def _same(old: JsonObject, new: JsonObject, member: str) -> bool:
    """The same JSON: 1 and true differ here, and so do a member that is null and none."""
    if (member in old) != (member in new):
        return False
    return member not in old or digest_json(old[member]) == digest_json(new[member])


def _edits(old: JsonObject, new: JsonObject, path: tuple[str, ...]) -> Iterator[Edit]:
    """What turns `old` into `new`. Goes as deep as both are objects; depth is bounded, below it whole values differ."""
    for member in sorted({*old, *new}):
        here = (*path, member)
        if member not in new:
            yield Edit(path=here, gone=True)
        elif member not in old:
            yield Edit(path=here, after=new[member])
        elif not _same(old, new, member):
            was, now = old[member], new[member]
            if isinstance(was, dict) and isinstance(now, dict) and len(here) < 3:
                yield from _edits(was, now, here)
            else:
                yield Edit(path=here, after=now)


def _strings(value: JsonValue) -> Iterator[str]:
    """Every text in `value`, also names of members, up to a bound. Does not recurse."""
    rest: list[JsonValue] = [value]
    count = 0
    while rest and count < _STRING_COUNT_MAX:
        item = rest.pop()
        count += 1
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            rest.extend(item)
            rest.extend(item.values())
        elif isinstance(item, list):
            rest.extend(item)


def _pointer(path: tuple[str, ...]) -> str:
    return "/".join(step[:80] for step in path)
