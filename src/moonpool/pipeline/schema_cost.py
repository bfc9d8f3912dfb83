"""How often a JSON Schema with references looks at one value. Pure.

SECURITY: a schema of two kilobytes, in which each definition names the next one twice, looks at a value 2 ** 40 times,
and nothing stops a check that has begun. So what a check can come to is counted before: over the places of a value
that are looked at together, and from level to level of it. Counted is the most that any value can cost.

Only references inside the document are followed. A schema that reaches its definitions in another way (`$id` below the
top, relative addresses, dynamic references) or that refers to itself at the same place gets no count (`Uncountable`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from moonpool.core.json import JsonObject, JsonValue

LEVELS: Final = 64
LOOKS_MAX: Final = 5_000_000
"""In all, for one value: some tenths of a second."""
TAME: Final = 2_000
"""Looks at one place that nobody needs to count for each value."""
_HERE_LISTS: Final = ("allOf", "anyOf", "oneOf")
_HERE: Final = ("not", "if", "then", "else")
_HERE_BY_NAME: Final = ("dependentSchemas", "dependencies")
_BELOW: Final = (
    "additionalProperties", "unevaluatedProperties", "items", "additionalItems", "prefixItems", "contains",
    "unevaluatedItems", "propertyNames",
)  # fmt: skip
_NAMED: Final = ("$ref", "$recursiveRef", "$dynamicRef")


class Uncountable(Exception):  # noqa: N818  says why
    """Nobody can say before what a check of this schema comes to."""


def looks_by_level(schema: JsonObject) -> tuple[int, ...]:
    """How often a place at each level of a value may be looked at; empty where that is never often.

    Raises Uncountable.
    """
    if not _refers(schema):
        return ()  # a tree: every part of it looks at a place at most once
    graph = _Graph(schema)
    looks: list[int] = []
    here = graph.closed(Counter({id(schema): 1}))
    while here and len(looks) < LEVELS:
        looks.append(here.total())
        if looks[-1] > LOOKS_MAX:
            break
        below = graph.closed(graph.below(here))
        if below == here:
            break
        here = below
    if not here:
        looks.append(0)
    return tuple(looks) if max(looks) > TAME else ()


def too_costly(value: JsonValue, looks: Sequence[int]) -> bool:
    """Whether a check of `value` may come to more than LOOKS_MAX."""
    level, left = [value], LOOKS_MAX
    for depth in range(LEVELS):
        left -= len(level) * looks[min(depth, len(looks) - 1)]
        if left < 0:
            return True
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return False
    return True


def _inside(value: JsonValue) -> Sequence[JsonValue]:
    if isinstance(value, dict):
        return [*value, *value.values()]  # names are looked at as well
    return value if isinstance(value, list) else ()


def _refers(schema: JsonObject) -> bool:
    return any(name in one for one in _objects(schema) for name in _NAMED)


def _objects(schema: JsonObject) -> Iterator[JsonObject]:
    """Every object in the document, whether it is a schema or not."""
    waiting: list[JsonValue] = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


class _Graph:
    """Which schemas look at the same place as a schema, and which at the places below it. Known by their identities."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._here: dict[int, list[int]] = {}
        self._below: dict[int, list[tuple[str, int]]] = {}
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if id(node) in self._here:
                continue
            self._check_place(node)
            here = [one for one in self._together(node) if isinstance(one, dict)]
            below = [(name, one) for name, one in _parts(node) if isinstance(one, dict)]
            self._here[id(node)] = [id(one) for one in here]
            self._below[id(node)] = [(name, id(one)) for name, one in below]
            waiting += [*here, *(one for _, one in below)]
        self._order = self._sorted()

    def _check_place(self, node: JsonObject) -> None:
        """What has an address of its own reads the references in it in another way. Raises Uncountable."""
        if node is not self._root and any(isinstance(node.get(name), str) for name in ("$id", "id")):
            raise Uncountable("it has an $id below its top")

    def closed(self, looks: Counter[int]) -> Counter[int]:
        """`looks`, with those of all schemas that look at the same place."""
        whole = Counter(looks)
        for key in self._order:
            if count := whole[key]:
                for one in self._here[key]:
                    whole[one] = min(whole[one] + count, LOOKS_MAX + 1)
        return +whole

    def below(self, looks: Counter[int]) -> Counter[int]:
        """The most that a place one level below is looked at."""
        by_name: dict[tuple[str, int], int] = defaultdict(int)
        for key, count in looks.items():
            for name, one in self._below[key]:
                by_name[name, one] += count
        named, everywhere = Counter[int](), Counter[int]()
        for (name, one), count in by_name.items():
            if name:
                named[one] = max(named[one], count)
            else:
                everywhere[one] += count
        return Counter({one: min(named[one] + everywhere[one], LOOKS_MAX + 1) for one in named | everywhere})

    def _together(self, node: JsonObject) -> Iterator[JsonValue]:
        for name in _HERE_LISTS:
            if isinstance(listed := node.get(name), list):
                yield from listed
        for name in _HERE:
            yield node.get(name)
        for name in _HERE_BY_NAME:
            if isinstance(members := node.get(name), dict):
                yield from members.values()
        for name in _NAMED:
            if isinstance(reference := node.get(name), str):
                yield self._target(name, reference)

    def _target(self, name: str, reference: str) -> JsonValue:
        if name != "$ref":
            raise Uncountable(f"it has a {name}")
        if reference.startswith("#") and reference[1:].isidentifier():
            return self._anchored(reference[1:])
        if reference != "#" and not reference.startswith("#/"):
            raise Uncountable("it refers to something by another way than #/...")
        target: JsonValue = self._root
        for step in map(_unquoted, reference.split("/")[1:]):
            if isinstance(target, dict):
                self._check_place(target)
                target = target.get(step)
            elif isinstance(target, list) and step.isdecimal() and int(step[:9]) < len(target):
                target = target[int(step[:9])]
            else:
                return None  # leads nowhere, which the compiler says
        return target

    def _anchored(self, name: str) -> JsonValue:
        found = [one for one in _objects(self._root) if one.get("$anchor") == name]
        if len(found) != 1:
            raise Uncountable(f"it has {len(found)} places called #{name[:100]}")
        return found[0]

    def _sorted(self) -> list[int]:
        """All schemas, each before those that it looks at the same place with. Raises Uncountable."""
        waits = Counter(one for inner in self._here.values() for one in inner)
        ready = [key for key in self._here if not waits[key]]
        order: list[int] = []
        while ready:
            key = ready.pop()
            order.append(key)
            for one in self._here[key]:
                waits[one] -= 1
                if not waits[one]:
                    ready.append(one)
        if len(order) < len(self._here):
            raise Uncountable("it refers to itself at the same place")
        return order


def _parts(node: JsonObject) -> Iterator[tuple[str, JsonValue]]:
    """Schemas of places below, with the name of the member where they are for one only."""
    if isinstance(members := node.get("properties"), dict):
        yield from ((f".{name}", one) for name, one in members.items())
    if isinstance(members := node.get("patternProperties"), dict):
        yield from (("", one) for one in members.values())
    for name in _BELOW:
        part = node.get(name)
        yield from (("", one) for one in (part if isinstance(part, list) else [part]))


def _unquoted(step: str) -> str:
    from urllib.parse import unquote  # noqa: PLC0415  few schemas have references

    return unquote(step).replace("~1", "/").replace("~0", "~")
