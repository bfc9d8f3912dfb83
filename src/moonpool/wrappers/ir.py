"""Intermediate representation of one tool, independent of the language.

`schema.read_tool` makes a `ToolShape` from a raw definition; the renderers turn it into Python, TypeScript and
stubs. Values from a schema (defaults, enum members) are kept as JSON text, because JSON tells `true` from `1` and
Python's equality does not. Objects with named members live in `ToolShape.objects` and are referred to by key, so
recursion is a plain reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Scalar(StrEnum):
    """A type without parts."""

    ANY = "any"
    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    NULL = "null"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some scalar values, each as JSON text."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    item: TypeExpr


@dataclass(frozen=True, slots=True)
class TupleOf:
    """An array with a type per position; `rest` is the type of further items, None if there are none."""

    items: tuple[TypeExpr, ...]
    rest: TypeExpr | None


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object used as a dictionary."""

    value: TypeExpr


@dataclass(frozen=True, slots=True)
class Ref:
    """The object of this key in `ToolShape.objects`."""

    key: str


@dataclass(frozen=True, slots=True)
class Union:
    options: tuple[TypeExpr, ...]  # at least two, no Union and no duplicates among them


TypeExpr: TypeAlias = Scalar | Choice | ListOf | TupleOf | MapOf | Ref | Union


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One parameter of a tool, or one member of an object inside it."""

    wire_name: str  # the server's spelling, which is sent
    identifier: str  # valid and distinct among its siblings
    type: TypeExpr
    required: bool
    default: str | None = None  # JSON text
    description: str = ""
    notes: tuple[str, ...] = ()  # constraints as text, such as ">= 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectShape:
    """An object with named members."""

    key: str
    hint: str  # the schema's name for it; the basis of a class name, not unique
    members: tuple[Member, ...]
    extras: TypeExpr | None = None  # type of further members; None if the schema forbids them
    asks_for_extras: bool = False  # the schema declares them; most schemas say nothing and have none
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """The server's own annotations. SECURITY: untrusted; shown, never relied on."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolShape:
    """One tool, ready to render."""

    server_id: str
    name: str
    title: str
    description: str
    input: ObjectShape
    output: TypeExpr | None  # None: the server declares no result type
    objects: dict[str, ObjectShape]  # targets of Refs, innermost first; without `input`
    hints: Hints = Hints()
    warnings: tuple[str, ...] = ()

    @property
    def output_object(self) -> ObjectShape | None:
        return self.objects.get(self.output.key) if isinstance(self.output, Ref) else None
