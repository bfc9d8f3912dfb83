"""TOML files that people write: read and parsed, with errors that name line, column and remedy.

What they say is checked by models: `moonpool.core.conversion`.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any, Final

from moonpool.core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

FILE_BYTES_MAX: Final = 1024 * 1024
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
