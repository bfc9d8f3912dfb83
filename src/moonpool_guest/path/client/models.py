"""`Model`: the base of generated `Params` and `Result` classes. Small, stdlib only.

    class Params(Model):
        query: str                          required
        limit: int = 30                     optional; the server's own default, shown when read, not sent
        from_: str = alias("from")          sent as "from"

INVARIANT: what is sent is what was given: a member not given is not sent, a given None is, members the schema does not
name are kept, names are the server's own. Nothing is converted or validated here; the broker validates against the
server's schema. Dicts given for nested models read like models and are sent as they were.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, ClassVar, Literal, Union, get_args, get_origin

_MISSING: Any = object()
_PLAIN = (str, int, bool, float)
_UNIONS = (Union, type(int | str))


class _Alias:
    """A member that is sent by another name."""

    def __init__(self, wire_name: str, default: Any) -> None:
        self.wire_name = wire_name
        self.default = default


def alias(wire_name: str, *, default: Any = _MISSING) -> Any:
    """Declare a member whose name on the wire is no Python identifier. Without a default it is required."""
    return _Alias(wire_name, default)


class Model:
    """Keyword construction, attribute access, dictionary form. See the module's text for what is kept."""

    __wire_names__: ClassVar[dict[str, str]] = {}
    __defaults__: ClassVar[dict[str, Any]] = {}
    _wire: dict[str, Any]

    def __init_subclass__(cls) -> None:
        cls.__wire_names__, cls.__defaults__ = {}, {}
        for name in cls.__annotations__:
            default = cls.__dict__.get(name, _MISSING)
            if default is not _MISSING:
                delattr(cls, name)  # so that reading goes through __getattr__ and a default list is never shared
            declared = default if isinstance(default, _Alias) else _Alias(name, default)
            cls.__wire_names__[name] = declared.wire_name
            if declared.default is not _MISSING:
                cls.__defaults__[name] = declared.default

    def __init__(self, /, *given: Mapping[str, Any], **members: Any) -> None:
        """Take members as keywords, by their Python or their own names; one dict by its own names may come first."""
        if len(given) > 1:
            raise TypeError(f"{type(self).__name__} takes one dict or keywords")
        wire = dict(given[0]) if given else {}
        for name, value in members.items():
            wire_name = self.__wire_names__.get(name, name)
            if wire_name in wire:
                raise TypeError(f"{type(self).__name__} got {wire_name!r} twice")
            wire[wire_name] = value
        required = (wire_name for name, wire_name in self.__wire_names__.items() if name not in self.__defaults__)
        if missing := [wire_name for wire_name in required if wire_name not in wire]:
            raise TypeError(f"{type(self).__name__} lacks {', '.join(map(repr, missing))}; known: {self._known()}")
        self._fill(wire)

    def _fill(self, wire: dict[str, Any]) -> None:
        types = _types(type(self))
        adapted = {name: _adapt(types.get(name, Any), value) for name, value in wire.items()}
        object.__setattr__(self, "_wire", adapted)

    @classmethod
    def _known(cls) -> str:
        return (
            ", ".join(f"{name}{'' if name in cls.__defaults__ else '*'}" for name in cls.__wire_names__)
            or "any members"
        )

    @classmethod
    def model_validate(cls, data: Any) -> Any:
        """Read a dict by its own names. Missing members do not matter until they are read."""
        if isinstance(data, cls):
            return data
        if not isinstance(data, Mapping):
            raise TypeError(f"{cls.__name__} is read from a dict, not from {type(data).__name__}")
        model = cls.__new__(cls)
        model._fill(dict(data))  # pyright: ignore[reportUnknownArgumentType]
        return model

    def model_dump(
        self, *, by_alias: bool = False, exclude_unset: bool = False, exclude_none: bool = False, **_others: Any
    ) -> dict[str, Any]:
        """A plain dict; by Python names unless `by_alias`, with defaults unless `exclude_unset`."""
        python_names = {wire_name: name for name, wire_name in self.__wire_names__.items()}
        values = {
            wire_name: _dump(value, by_alias, exclude_unset, exclude_none) for wire_name, value in self._wire.items()
        }
        if not exclude_unset:
            for name, default in self.__defaults__.items():
                values.setdefault(self.__wire_names__[name], copy.deepcopy(default))
        if exclude_none:
            values = {name: value for name, value in values.items() if value is not None}
        return values if by_alias else {python_names.get(name, name): value for name, value in values.items()}

    def model_dump_json(self, *, indent: int | None = None, **options: Any) -> str:
        return json.dumps(self.model_dump(**options), indent=indent, ensure_ascii=False)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Any:
        """A copy, with the members of `update` changed."""
        twin = copy.deepcopy(self) if deep else copy.copy(self)
        for name, value in (update or {}).items():
            setattr(twin, name, value)
        return twin

    @property
    def model_fields_set(self) -> set[str]:
        return {name for name, wire_name in self.__wire_names__.items() if wire_name in self._wire}

    @property
    def model_extra(self) -> dict[str, Any]:
        """Members that the schema does not name."""
        known = set(self.__wire_names__.values())
        return {name: value for name, value in self._wire.items() if name not in known}

    def __getattr__(self, name: str) -> Any:
        if name == "_wire" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        wire_name = self.__wire_names__.get(name, name)
        if wire_name in self._wire:
            return self._wire[wire_name]
        if name in self.__defaults__:
            return copy.deepcopy(self.__defaults__[name])
        raise AttributeError(f"{type(self).__name__} has no {name!r}; it has {', '.join(self._wire) or 'no members'}")

    def __setattr__(self, name: str, value: Any) -> None:
        wire_name = self.__wire_names__.get(name, name)
        self._wire[wire_name] = _adapt(_types(type(self)).get(wire_name, Any), value)

    def __getitem__(self, name: str) -> Any:
        """Read a member as from a dict, by its own name."""
        return self._wire[name]

    def __contains__(self, name: object) -> bool:
        return name in self._wire

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self._wire.items())

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._wire == self._wire

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        python_names = {wire_name: name for name, wire_name in self.__wire_names__.items()}
        shown = ", ".join(f"{python_names.get(name, name)}={value!r}" for name, value in self._wire.items())
        return f"{type(self).__name__}({shown})"

    def __copy__(self) -> Any:
        return _rebuild(type(self), dict(self._wire))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._wire)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self.__wire_names__})

    def __moonpool_json__(self) -> dict[str, Any]:
        """Asked by the kernel when this object is part of a result."""
        return to_wire(self)


def to_wire(value: Any) -> Any:
    """Models, enum members and tool results inside `value` become plain; everything else stays what it is."""
    if value is None or type(value) in _PLAIN:
        return value
    if isinstance(value, Model):
        return {name: to_wire(item) for name, item in vars(value)["_wire"].items()}
    if isinstance(value, Mapping):
        return {name: to_wire(item) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [to_wire(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "__moonpool_json__"):  # a tool result: its data, or its error
        return to_wire(value.__moonpool_json__())
    if (dump := getattr(value, "model_dump", None)) is not None:  # somebody's own pydantic model
        return dump(mode="json", by_alias=True, exclude_unset=True)
    return value


def _rebuild(cls: type[Any], wire: dict[str, Any]) -> Any:
    model: Any = object.__new__(cls)
    object.__setattr__(model, "_wire", wire)
    return model


def _dump(value: Any, by_alias: bool, exclude_unset: bool, exclude_none: bool) -> Any:
    if isinstance(value, Model):
        return value.model_dump(by_alias=by_alias, exclude_unset=exclude_unset, exclude_none=exclude_none)
    if isinstance(value, list):
        return [_dump(item, by_alias, exclude_unset, exclude_none) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {name: _dump(item, by_alias, exclude_unset, exclude_none) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value


_TYPES: dict[type[Model], dict[str, Any]] = {}


def _types(cls: type[Model]) -> dict[str, Any]:
    """Member types by wire name, evaluated once, in the class's module: members may be called `str` or `list`."""
    found = _TYPES.get(cls)
    if found is None:
        scope = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
        found = {}
        for name, text in cls.__annotations__.items():
            try:
                found[cls.__wire_names__[name]] = eval(text, dict(scope)) if isinstance(text, str) else text
            except Exception:
                found[cls.__wire_names__[name]] = Any
        _TYPES[cls] = found
    return found


def _adapt(expected: Any, value: Any) -> Any:
    """Let dicts that stand where a model is declared read like that model. Other values stay what they are."""
    if isinstance(value, dict):
        for option in _options(expected):
            if isinstance(option, type) and issubclass(option, Model) and _fits(option, value):  # pyright: ignore[reportUnknownArgumentType]
                return option.model_validate(value)
            if get_origin(option) is dict:
                inner = get_args(option)[1]
                return {name: _adapt(inner, item) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    elif isinstance(value, list):
        for option in _options(expected):
            if get_origin(option) is list:
                inner = get_args(option)[0]
                return [_adapt(inner, item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value  # pyright: ignore[reportUnknownVariableType]


def _options(expected: Any) -> tuple[Any, ...]:
    return get_args(expected) if get_origin(expected) in _UNIONS else (expected,)


def _fits(model: type[Model], value: dict[str, Any]) -> bool:
    """Whether a dict has what this model requires, and the constants by which alternatives are told apart."""
    for name, wire_name in model.__wire_names__.items():
        if name not in model.__defaults__ and wire_name not in value:
            return False
    types = _types(model)
    return all(
        value[wire_name] in get_args(expected)
        for wire_name, expected in types.items()
        if wire_name in value and get_origin(expected) is Literal and len(get_args(expected)) == 1
    )
