"""A file of declared placeholders: TOML, `"server.tool" = result`, globs allowed; the first that matches answers.

A table is the tool's data and is checked against its output schema when it is used; a string is for tools that answer
with text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.configuration.condition_entry import json_value
from moonpool.configuration.toml_files import parse_toml, read_bytes
from moonpool.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from moonpool.core.json import JsonValue

PLACEHOLDERS_MAX: Final = 1000


def load_placeholders(path: Path) -> Mapping[str, JsonValue]:
    """Read the file. Raises ConfigError, which names file and key."""
    found = parse_toml(read_bytes(path, "give a file of placeholders"), str(path))
    if len(found) > PLACEHOLDERS_MAX:
        raise ConfigError(f"{path}: {len(found)} placeholders; at most {PLACEHOLDERS_MAX}")
    for glob, value in found.items():
        try:
            json_value(value)
        except ValueError as exc:
            raise ConfigError(f"{path}: {glob[:100]!r}: {exc}") from None
        if "." not in glob:
            raise ConfigError(f'{path}: {glob[:100]!r} names no tool; write "server.tool", in quotes')
        if not isinstance(value, dict | str):
            raise ConfigError(f"{path}: {glob[:100]!r} must be a table or a string, as the tool would answer")
    return found
