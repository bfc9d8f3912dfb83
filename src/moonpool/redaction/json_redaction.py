"""Redaction of a JSON value: all strings, object keys and numbers in one search instead of one for each.

Equal strings are searched once. Short ones are searched together, with a separator that no match crosses
(`SpanFinder.between`), so that the result is the same as for each alone. The value is rebuilt only if something was
found.

Neighbours: `redactor` calls this after a search of the whole JSON text found something; `named_values` finds secrets by
a member's name.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Protocol

from moonpool.redaction.spans import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.redaction.spans import Span, SpanFinder

_SHORT_CHARACTERS: Final = 4000  # in UTF-8 less than half a finder's window, so that windows do not matter


class MemberNames(Protocol):
    """Finds secrets in members of objects by the members' names."""

    def names(self, name: str) -> bool:
        """Whether a string may be secret because of its member's name."""
        ...

    def members(self, members: Sequence[tuple[str, str]]) -> Sequence[Sequence[Span]]:
        """The spans of secrets in the UTF-8 of each string, given (name, string) pairs."""
        ...


def redact_json(
    value: JsonValue,
    finders: Sequence[SpanFinder],
    members: MemberNames | None,
    text: Callable[[str, Counter[str]], str],
    tally: Counter[str],
) -> JsonValue:
    """Returns `value` itself if nothing is found. `text` redacts long strings."""
    leaves = _Leaves(members)
    leaves.collect(value)
    new = _New(_texts(leaves.texts, finders, text, tally))
    if members is not None:
        new.take_members(leaves.members, members, tally)
    return new.build(value) if new.texts or new.members else value


class _Leaves:
    """The strings to search in a value."""

    def __init__(self, members: MemberNames | None) -> None:
        self.texts: list[str] = []  # strings, keys, and numbers as written
        self.members: list[tuple[str, str]] = []  # those that may be secret by their name
        self._rule = members
        self._telling: dict[str, bool] = {}  # names seen

    def collect(self, value: JsonValue) -> None:
        texts, containers = self.texts, [value]
        while containers:
            container = containers.pop()
            if isinstance(container, dict):
                texts += container
                self._collect_members(container)
            for item in container.values() if isinstance(container, dict) else _items(container):
                if isinstance(item, str):
                    texts.append(item)
                elif isinstance(item, list | dict):
                    containers.append(item)
                elif item is not None and not _short_number(item):
                    texts.append(repr(item))

    def _collect_members(self, item: JsonObject) -> None:
        if self._rule is None:
            return
        telling = self._telling
        for name, value in item.items():
            if name not in telling:
                telling[name] = self._rule.names(name)
            if telling[name] and isinstance(value, str) and value:
                self.members.append((name, value))


def _items(value: JsonValue) -> Sequence[JsonValue]:
    return value if isinstance(value, list) else (value,)


def _short_number(value: JsonValue) -> bool:
    """Too short for any finder: all need at least six characters. Also true and false."""
    return isinstance(value, int) and -10_000 < value < 100_000


class _New:
    """Replacements: for strings anywhere, and for strings of named members."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts
        self.members: dict[tuple[str, str], str] = {}

    def take_members(self, found: list[tuple[str, str]], rule: MemberNames, tally: Counter[str]) -> None:
        """SECURITY: a string searched alone lacks the name that makes it a secret."""
        counts = Counter([(name, self.texts.get(value, value)) for name, value in found])
        members = list(counts)
        for member, spans in zip(members, rule.members(members), strict=True):
            if spans:
                self.members[member] = _without(member[1], spans)
                for _, _, name in spans:
                    tally[name] += counts[member]

    def build(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return self.texts.get(value, value)
        if isinstance(value, dict):
            return self._build_object(value)
        if isinstance(value, list):
            return [self.build(item) for item in value]
        return value if value is None or _short_number(value) else self.texts.get(repr(value), value)

    def _build_object(self, value: JsonObject) -> JsonObject:
        built: JsonObject = {}
        clashes: Counter[str] | None = None
        for key, item in value.items():
            name = self.texts.get(key, key)
            if name in built:
                clashes = clashes or Counter()
                name = _another(name, built, clashes)
            new = self.texts.get(item, item) if isinstance(item, str) else self.build(item)
            built[name] = self.members.get((key, new), new) if isinstance(new, str) else new
        return built


def _another(name: str, taken: JsonObject, clashes: Counter[str]) -> str:
    """A name for a member: two keys that differ only in a secret must not overwrite each other."""
    while name in taken:
        clashes[name] += 1
        name = f"{name}'{clashes[name]}" if clashes[name] > 1 else f"{name}'"
    return name


def _texts(
    texts: list[str], finders: Sequence[SpanFinder], text: Callable[[str, Counter[str]], str], tally: Counter[str]
) -> dict[str, str]:
    """The replacements of those of `texts` that hold a secret."""
    new: dict[str, str] = {}
    counts = Counter(texts)
    short: list[str] = []
    for one, count in counts.items():
        if len(one) <= _SHORT_CHARACTERS:
            short.append(one)
            continue
        found: Counter[str] = Counter()
        redacted = text(one, found)
        if found:
            new[one] = redacted
        for name, times in found.items():
            tally[name] += times * count
    parts = [one.encode("utf-8", "surrogatepass") for one in short]
    changed: set[int] = set()
    for finder in finders:
        for index, spans in _found_in(parts, finder).items():
            parts[index] = replaced(parts[index], 0, len(parts[index]), spans)
            for _, _, name in spans:
                tally[name] += counts[short[index]]
            changed.add(index)
    return new | {short[index]: parts[index].decode("utf-8", "surrogatepass") for index in changed}


def _found_in(parts: list[bytes], finder: SpanFinder) -> dict[int, list[Span]]:
    """The spans that the finder finds in each part, as if searched alone."""
    data = finder.between.join(parts)
    found: dict[int, list[Span]] = {}
    if not finder.contains(data):
        return found
    starts = list(accumulate((len(part) + len(finder.between) for part in parts), initial=0))
    for start, end, name in finder.scan(data, 0, final=True).spans:
        index = bisect_right(starts, start) - 1
        at = starts[index]
        assert end - at <= len(parts[index]), "nothing is found over the end of a text"
        found.setdefault(index, []).append((start - at, end - at, name))
    return found


def _without(text: str, spans: Sequence[Span]) -> str:
    data = text.encode("utf-8", "surrogatepass")
    return replaced(data, 0, len(data), spans).decode("utf-8", "surrogatepass")
