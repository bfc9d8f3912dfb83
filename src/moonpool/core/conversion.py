"""Documents that people write, converted to msgspec models: what does not fit is one problem, told by its place.

The models say all that is known about the members: their types, choices and bounds, and in `Meta(extra=...)` what a
person should write: `need` where a member is missing, `must` where its value does not fit. A `ValueError` of a
`__post_init__` is told as it is.

A key nobody knows is refused with the nearest known name, because a misspelt condition would otherwise hold for
everything: models of documents forbid unknown fields.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import msgspec
from msgspec import inspect

from moonpool.core.errors import ConfigError
from moonpool.core.phrases import clip, near_names, on_one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_T = TypeVar("_T")

_STEP: Final = re.compile(r"\.([^.\[`]+)|\[(\d+)\]")
_SHOWN_CHARS_MAX: Final = 60
_KINDS: Final[dict[type[Any], str]] = {
    dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "a number", float: "a number",
    type(None): "null",
}  # fmt: skip
_WANTED: Final = {
    "object": "an object", "array": "a list", "str": "a string", "bool": "true or false", "int": "a whole number",
    "float": "a number",
}  # fmt: skip


class Problem(NamedTuple):
    """Why a document does not fit its model."""

    places: tuple[str, ...]  # the objects or tables it is in, from the outside
    key: str  # the member; empty: the innermost place itself
    text: str

    def __str__(self) -> str:
        key = f'"{self.key}"' if self.key else ""
        return ": ".join(filter(None, (", ".join(self.places), key, self.text)))


def convert(raw: object, model: type[_T], where: str, tables: Mapping[str, str] | None = None) -> _T:
    """`raw` as a `model`. Raises ConfigError, which names `where`, the place in it and the remedy.

    `tables`: the document is TOML, and entries of these arrays are called so (`{"when": "condition"}`).
    """
    try:
        return msgspec.convert(raw, model)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {problem_of(error, raw, model, tables)}") from None


def problem_of(
    error: msgspec.ValidationError, raw: object, model: type[Any], tables: Mapping[str, str] | None = None
) -> Problem:
    """What `error`, of converting `raw` to `model`, says."""
    said, at, path = str(error).rpartition(" - at `$")
    if not at:
        said, path = path, ""
    node, trail, names = inspect.type_info(model), list[str](), list[str]()
    value: Any = raw
    for name, index in _STEP.findall(path):
        node, value = _inside(node, value, name or int(index))
        if name:
            trail.append(f'"{name}"')
            names.append(name)
        elif tables is not None and _struct(node) is not None:
            trail[-1] = _entry(names[-1], tables.get(names[-1]), int(index), value)
        else:
            trail[-1] = f'{trail[-1][:-1]}[{index}]"'
    if error.__cause__ is None:
        said = _told(said, node, value, names, toml=tables is not None)
    key = trail.pop().strip('"') if trail and _struct(node) is None else ""
    return Problem(tuple(trail), key, said)


def kind_of(value: object, *, toml: bool = False) -> str:
    """What a value is, for sentences."""
    kind = _KINDS.get(type(value), "a date")
    return "a table" if toml and kind == _KINDS[dict] else kind


def _told(said: str, node: inspect.Type, value: Any, names: Sequence[str], *, toml: bool) -> str:
    if (struct := _struct(node)) is not None and isinstance(value, dict):
        return _members_problem(struct, cast("dict[str, object]", value)) or said
    if said.startswith("Expected `") and ", got `" in said:
        kinds = said.split("`")[1].split(" | ")
        left_out = {"null", "int"} if "float" in kinds else {"null"}
        wanted = _either([_word(kind, node, names, toml=toml) for kind in kinds if kind not in left_out])
        return f"must be {wanted}, not {kind_of(value, toml=toml)}"
    return _extra(node, "must") or _unfit(node, value) or said.replace("`", "")


def _members_problem(struct: inspect.StructType, given: Mapping[str, object]) -> str:
    known = [field.encode_name for field in struct.fields]
    for key in given:
        if key not in known:
            near = near_names([key], known)
            hint = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(known)}"
            return f'unknown key "{on_one_line(clip(key, _SHOWN_CHARS_MAX))}"; {hint}'
    for field in struct.fields:
        if field.required and field.encode_name not in given:
            return "; ".join(filter(None, (f'has no "{field.encode_name}"', _extra(field.type, "need"))))
    return ""


def _unfit(node: inspect.Type, value: object) -> str:
    """A value of the right kind that is none of the choices, or out of bounds."""
    shown = f"{value:.15g}" if isinstance(value, int | float) else repr(clip(str(value), _SHOWN_CHARS_MAX))
    for one in _options(node):
        if isinstance(one, inspect.LiteralType | inspect.EnumType):
            choices = [*map(str, one.values if isinstance(one, inspect.LiteralType) else one.cls)]
            near = near_names([str(value)], choices)
            return f"must be {_either(choices)}, but is {shown}" + (f'; did you mean "{near[0]}"?' if near else "")
        if isinstance(one, inspect.IntType | inspect.FloatType) and (bounds := _bounds(one)):
            return f"must be {bounds}, but is {shown}"
    return ""


def _either(choices: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(choices[:-1]), choices[-1])))


def _bounds(one: inspect.IntType | inspect.FloatType) -> str:
    if one.ge is not None and one.le is not None:
        return f"from {one.ge:.15g} to {one.le:.15g}"
    named = {"above": one.gt, "at least": one.ge, "at most": one.le}
    return " and ".join(f"{word} {bound:.15g}" for word, bound in named.items() if bound is not None)


def _word(kind: str, node: inspect.Type, names: Sequence[str], *, toml: bool) -> str:
    """One of the kinds that msgspec expected."""
    if kind == "array":
        lists = [one for one in _options(node) if isinstance(one, inspect.VarTupleType)]
        items = [item for one in lists for item in _options(one.item_type)]
        if toml and any(isinstance(item, inspect.StructType) for item in items):
            return f"an array of tables; write [[{'.'.join(names)}]]"
        if any(isinstance(item, inspect.StrType | inspect.LiteralType) for item in items):
            return "a list of strings"
    return "a table" if toml and kind == "object" else _WANTED.get(kind, kind)


def _entry(name: str, told: str | None, place: int, value: Any) -> str:
    """An entry of an array of tables: by its id if it has one, else by its number."""
    given = cast("dict[str, object]", value).get("id") if isinstance(value, dict) else None
    if isinstance(given, str) and 0 < len(given) <= _SHOWN_CHARS_MAX and given.isprintable():
        return f"{name} {given!r}"
    return f"{told or name + ' number'} {place + 1}"


def _inside(node: inspect.Type, value: Any, step: str | int) -> tuple[inspect.Type, Any]:
    """The type and the value one step further; as they are where there is none."""
    try:
        value = value[step]
    except (LookupError, TypeError):
        return node, value
    for one in _options(node):
        if isinstance(one, inspect.StructType):
            return next(field.type for field in one.fields if field.encode_name == step), value
        if isinstance(one, inspect.VarTupleType):
            return one.item_type, value
    return node, value


def _struct(node: inspect.Type) -> inspect.StructType | None:
    return next((one for one in _options(node) if isinstance(one, inspect.StructType)), None)


def _extra(node: inspect.Type, name: str) -> str:
    parts = node.types if isinstance(node, inspect.UnionType) else (node,)
    extras = [cast("dict[str, str] | None", getattr(one, "extra", None)) or {} for one in parts]
    return next((extra[name] for extra in extras if name in extra), "")


def _options(node: inspect.Type) -> list[inspect.Type]:
    """A type without its metadata; of a union all of them."""
    if isinstance(node, inspect.UnionType):
        return [option for one in node.types for option in _options(one)]
    return _options(node.type) if isinstance(node, inspect.Metadata) else [node]
