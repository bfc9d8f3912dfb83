"""Turns the value that code left in `result`, or of its last expression, into JSON, or says why it cannot.

What JSON holds goes through. Beyond that: objects that offer `__moonpool_json__` (tool results: their data), pydantic
models, dataclasses, enums, dates (ISO 8601), paths, numpy scalars and arrays, and pictures, which are shown: the name
of their file. Bytes that a tool returned become a file, too. Everything else, NaN, infinities and lone
surrogates are errors that name the place and the remedy: nothing is converted by guessing.
"""

import dataclasses
import datetime as dt
import enum
import inspect
import json
import math
import os
import sys
from typing import Any, NoReturn, cast

from moonpool_guest.python import pictures

_Place = tuple[Any, object]  # the place around this one, and the key or index in it; outermost is the value's name
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DEPTH_MAX = 60  # the host refuses JSON deeper than 64


class NotSerializableError(Exception):
    """The value cannot be handed over as JSON."""


class TooLargeError(Exception):
    """The value is larger than there is room for."""


class _Walk:
    """What one value's encoding remembers: the objects that it is inside of, and how many bytes may still come."""

    __slots__ = ("room", "seen")

    def __init__(self, room: int) -> None:
        self.seen: set[int] = set()
        self.room = room


def encode_result(value: Any, name: str = "result", *, room: int = sys.maxsize) -> bytes:
    """Return `value` as compact UTF-8 JSON. Raises NotSerializableError.

    Raises TooLargeError as soon as it is certain that the JSON is longer than `room` bytes: nobody who did not ask for
    a value waits until all of it is written.
    """
    try:
        encoded = _dump(_plain(value, name, 0, _Walk(room)))
    except RecursionError:
        raise NotSerializableError(f"{name} is nested too deeply; return a flatter value") from None
    except ValueError as error:  # CPython's own limit on the digits of an integer
        raise NotSerializableError(f"{name} holds a number that cannot be written: {error}") from None
    if len(encoded) > room:
        raise TooLargeError
    return encoded


def without_blobs(encoded: bytes) -> bytes:
    """A result of another language: bytes that a tool returned are in files, as in one of Python's."""
    if b'"mimeType"' not in encoded:
        return encoded
    try:
        return encode_result(json.loads(encoded))
    except (NotSerializableError, OSError, ValueError, RecursionError):  # OSError: the file cannot be written
        return encoded


def _dump(plain: object) -> bytes:
    return _ENCODER.encode(plain).encode()


def _plain(value: Any, place: "_Place | str", depth: int, walk: _Walk) -> object:
    walk.room -= len(value) if type(value) is str else 1  # at least
    if walk.room < 0:
        raise TooLargeError
    if value is None or (isinstance(value, bool | int) and type(value) in (bool, int)):
        return value
    if type(value) is str:
        return _text(value, place)
    if type(value) is float:
        return _number(value, place)
    if depth > _DEPTH_MAX:
        raise NotSerializableError(
            f"{_name(place)} is nested more than {_DEPTH_MAX} levels deep; return a flatter value"
        )
    if id(value) in walk.seen:
        raise NotSerializableError(f"{_name(place)} contains itself; JSON cannot hold a cycle")
    walk.seen.add(id(value))
    try:
        return _compound(value, place, depth, walk)
    finally:
        walk.seen.discard(id(value))


def _compound(value: Any, place: "_Place | str", depth: int, walk: _Walk) -> object:
    if isinstance(value, dict):
        value = cast("dict[Any, Any]", pictures.without_blobs(value))
        plain = {_key(k, place): _plain(v, (place, k), depth + 1, walk) for k, v in value.items()}
        if len(plain) != len(value):
            raise NotSerializableError(f"{_name(place)} has keys that are the same as text; JSON keys are strings")
        return plain
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return [_plain(item, (place, index), depth + 1, walk) for index, item in enumerate(items)]
    return _plain(_convert(value, place, walk), place, depth + 1, walk)


def _convert(value: Any, place: "_Place | str", walk: _Walk) -> object:
    kind = cast("type[Any]", type(value))
    if (hook := getattr(kind, "__moonpool_json__", None)) is not None:
        data = hook(value)
        pictures.show_beside(value, data)
        return data
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int | float):  # a subclass; as the number that it is
        return float(value) if isinstance(value, float) else int(value)
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, os.PathLike):
        return str(os.fspath(cast("os.PathLike[str]", value)))
    if dataclasses.is_dataclass(kind):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
    if callable(dump := getattr(kind, "model_dump", None)) and not isinstance(value, type):
        return dump(value)
    if kind.__module__ == "numpy" and hasattr(value, "tolist"):
        return _of_numpy(value, walk)
    return pictures.show(value) or _refuse(value, place)


def _refuse(value: Any, place: "_Place | str") -> NoReturn:
    kind = cast("type[Any]", type(value))
    raise NotSerializableError(f"{_name(place)} is {_article(kind.__name__)}, which JSON cannot hold; {_remedy(value)}")


def _of_numpy(value: Any, walk: _Walk) -> object:
    if value.size > walk.room:
        raise TooLargeError
    return value.tolist()


def _remedy(value: Any) -> str:
    if inspect.iscoroutine(value):
        return "write `await` before the call"
    if isinstance(value, set | frozenset):
        return "use sorted(...) or list(...)"
    if isinstance(value, bytes | bytearray | memoryview):
        return "decode it, or write it to a file in /workspace"
    if type(value).__name__ in ("DataFrame", "Series"):
        return 'use .to_dict("records") or .to_dict()'
    if callable(value):
        return "call it and return what it gives"
    if hasattr(value, "__iter__"):
        return "use list(...)"
    return "convert it to a dict, list, string or number"


def _key(key: Any, place: "_Place | str") -> str:
    if key is None or isinstance(key, bool):
        return json.dumps(key)
    if isinstance(key, str | int | float):
        return _text(str(key.value) if isinstance(key, enum.Enum) else str(key), place, "a key of ")
    raise NotSerializableError(f"{_name(place)} has a key {_shown(key)}, but JSON keys are strings; use str(...)")


def _text(value: str, place: "_Place | str", what: str = "") -> str:
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError as error:
        character = value[error.start]
        raise NotSerializableError(
            f"{what}{_name(place)} holds a lone surrogate ({character!r}), which is not text; "
            'use .encode("utf-8", "replace").decode()'
        ) from None
    return value


def _number(value: float, place: "_Place | str") -> float:
    if not math.isfinite(value):
        raise NotSerializableError(f"{_name(place)} is {value}, which JSON cannot hold; use None or a string")
    return value


def _name(place: "_Place | str") -> str:
    """`result["rows"][3]`. Made only when there is something to say about the place."""
    keys: list[str] = []
    while not isinstance(place, str):
        place, key = place
        keys.append(f"[{_shown(key)}]")
    name = place + "".join(reversed(keys))
    return name if len(name) <= 200 else name[:120] + "..." + name[-60:]


def _shown(key: object) -> str:
    try:
        return f"{key!r:.80}"
    except Exception:
        return "..."


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
