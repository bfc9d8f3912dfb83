"""Tables of a TOML file that people write: values taken out by key and kind, and errors that name the place.

A key nobody knows is refused with the nearest known name, because a misspelt condition would otherwise hold for
everything.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any, Final, cast

from moonpool.core.errors import ConfigError
from moonpool.core.phrases import clip, near_names

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from moonpool.core.json import JsonValue

FILE_BYTES_MAX: Final = 1024 * 1024
_DEPTH_MAX: Final = 64
_KINDS: Final[dict[type[Any], str]] = {
    dict: "a table",
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
}


_REMEDIES: Final = {
    "Invalid value": 'write a string in quotes, for example tool = "create_issue", a number, true or false',
    "Expected '='": "write key = value",
    "Invalid statement": "write key = value, or [table]",
    "Unterminated string": "close the string with its quote",
    "Illegal character": "close the string on its line, or write it between three quotes",
    "Unescaped": "write such a string in single quotes, in which a backslash is itself",
    "Unclosed array": "close the list with ]",
    "Unclosed inline table": "close the table with }",
    "Expected ']'": "close the name of the table with ]",
    "Expected newline": "begin a new line before it",
    "Cannot overwrite": "a key is given twice; remove one",
}
"""What to write where `tomllib` says so."""


class Table:
    """One table, its keys checked."""

    def __init__(self, raw: object, where: str, keys: Sequence[str]) -> None:
        if not isinstance(raw, dict):
            raise ConfigError(f"{where}: must be a table, not {_kind(raw)}")
        self._raw = cast("dict[str, object]", raw)
        self.where = where
        for key in self._raw:
            if key not in keys:
                near = near_names([key], keys)
                hint = f'; did you mean "{near[0]}"?' if near else f"; known are {', '.join(keys)}"
                raise ConfigError(f'{where}: unknown key "{clip(key, 60)}"{hint}')

    def __contains__(self, key: str) -> bool:
        return key in self._raw

    def problem(self, key: str, problem: str) -> ConfigError:
        """The error for what stands under `key`."""
        return ConfigError(f'{self.where}: "{key}": {problem}')

    def need(self, key: str, why: str) -> None:
        if key not in self._raw:
            raise ConfigError(f'{self.where}: has no "{key}"; {why}')

    def text(self, key: str, default: str = "") -> str:
        value = self._raw.get(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, "a string")
        return value

    def flag(self, key: str) -> bool | None:
        value = self._raw.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def number(self, key: str) -> float | None:
        value = self._raw.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, "a number")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; one text alone is a list of one."""
        value = self._raw.get(key, [])
        items = cast("list[object]", value if isinstance(value, list) else [value])
        if not all(isinstance(item, str) for item in items):
            raise self._wrong(key, "a string or a list of strings")
        return tuple(cast("list[str]", items))

    def choice(self, key: str, choices: Sequence[str]) -> str:
        return self._known(key, self.text(key), choices)

    def choices(self, key: str, choices: Sequence[str]) -> tuple[str, ...]:
        """A list of known words; one alone is a list of one."""
        return tuple(self._known(key, value, choices) for value in self.texts(key))

    def value(self, key: str) -> JsonValue:
        """Any JSON value. TOML's dates and its nan and inf are none."""
        return self._json(self._raw[key], key, _DEPTH_MAX)

    def values(self, key: str) -> tuple[JsonValue, ...]:
        value = self._raw[key]
        if not isinstance(value, list):
            raise self._wrong(key, "a list")
        return tuple(self._json(item, key, _DEPTH_MAX) for item in cast("list[object]", value))

    def items(self, key: str, *, below: str = "") -> list[object]:
        """Tables of an array of tables, unread; `below` is the array that this table is one of."""
        value = self._raw.get(key, [])
        if not isinstance(value, list):
            raise self._wrong(key, f"an array of tables; write [[{below}{key}]]")
        return cast("list[object]", value)

    def flags(self, key: str) -> dict[str, bool]:
        """A table of true and false."""
        value = self._raw.get(key, {})
        if not isinstance(value, dict):
            raise self._wrong(key, "a table, for example { readOnlyHint = true }")
        found = cast("dict[str, object]", value)
        for name, item in found.items():
            if not isinstance(item, bool):
                raise self.problem(f"{key}.{clip(name, 60)}", f"must be true or false, not {_kind(item)}")
        return cast("dict[str, bool]", found)

    def table(self, key: str, keys: Sequence[str]) -> Table:
        return Table(self._raw.get(key), f'{self.where}, "{key}"', keys)

    def _known(self, key: str, value: str, choices: Sequence[str]) -> str:
        if value in choices:
            return value
        near = near_names([value], choices)
        hint = f'did you mean "{near[0]}"?' if near else f"write {' or '.join(choices)}"
        raise self.problem(key, f"{clip(value, 60)!r} is not known; {hint}")

    def _json(self, value: object, key: str, depth: int) -> JsonValue:
        if depth == 0:
            raise self.problem(key, f"is nested deeper than {_DEPTH_MAX} levels")
        if isinstance(value, dict):
            found = cast("dict[str, object]", value)
            return {name: self._json(item, key, depth - 1) for name, item in found.items()}
        if isinstance(value, list):
            return [self._json(item, key, depth - 1) for item in cast("list[object]", value)]
        if isinstance(value, float) and not abs(value) < float("inf"):
            raise self.problem(key, "nan and inf are no JSON")
        if isinstance(value, str | bool | int | float):
            return value
        raise self.problem(key, f"{_kind(value)} is not JSON; write it as a string")

    def _wrong(self, key: str, wanted: str) -> ConfigError:
        return self.problem(key, f"must be {wanted}, not {_kind(self._raw.get(key))}")


def read_bytes(path: Path, remedy: str) -> bytes:
    """The file, or ConfigError in one sentence."""
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path}: is not a file; {remedy}")
        with path.open("rb") as file:
            return file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file; {remedy}") from None
    except (OSError, ValueError) as exc:
        raise ConfigError(f"{path}: cannot be read: {getattr(exc, 'strerror', None) or exc}; {remedy}") from None


def parse_toml(text: bytes, source: str) -> dict[str, Any]:
    """The document, or ConfigError that names line and column."""
    if len(text) > FILE_BYTES_MAX:
        raise ConfigError(f"{source}: is larger than {FILE_BYTES_MAX // 1024} KiB")
    try:
        return tomllib.loads(text.decode("utf-8-sig"))
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{source}: is not UTF-8 (byte {exc.start}); save it as UTF-8") from None
    except tomllib.TOMLDecodeError as exc:
        told = str(exc)
        remedy = next((what for begin, what in _REMEDIES.items() if told.startswith(begin)), "write TOML there")
        raise ConfigError(f"{source}: is not TOML: {told[:1].lower()}{told[1:]}; {remedy}") from None
    except (RecursionError, ValueError) as exc:
        raise ConfigError(f"{source}: is not TOML that can be read ({type(exc).__name__})") from None


def _kind(value: object) -> str:
    return (
        "nothing"
        if value is None
        else next((name for kind, name in _KINDS.items() if isinstance(value, kind)), "a date")
    )
