"""Token counts of texts and tool lists, kept between processes, so that a command need not load a tokenizer.

Two files below one private folder: `totals.json` has the figures of whole tool lists, small, for the usual start at
which nothing is new; `counts.json` those of single definitions, read only when a list is. One that is missing, too
large, damaged or of another format is as good as empty, and is written anew; one that cannot be written costs the time
to count again. Two processes that write at once lose what the slower one did not read. Blocking: call from a thread.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import TYPE_CHECKING, Final, cast

from moonpool.features.usage.model import ToolTokens
from moonpool.store.private_files import StoreFolderError, private_folder, replace_private_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from moonpool.core.json import JsonObject, JsonValue

FORMAT: Final = 1
COUNTS_MAX: Final = 50_000
COUNTS_BYTES_MAX: Final = 8 * 1024**2
TOTALS_MAX: Final = 200
TOTALS_BYTES_MAX: Final = 128 * 1024
_KEY: Final = re.compile(r"sha256:[0-9a-f]{64}")
_TOKENS_MAX: Final = 2**40
_KEPT: Final = tuple(field.name for field in fields(ToolTokens) if field.name != "uncounted")


class TokenCountStore:
    """Counts below one private folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load_totals(self, key: str) -> ToolTokens | None:
        """The figures of the tool list that `key` names, if they are kept."""
        return _totals(self._read("totals.json", TOTALS_BYTES_MAX).get(key))

    def save_totals(self, key: str, totals: ToolTokens) -> bool:
        """Keep the figures of one list; False when it cannot be done."""
        assert _KEY.fullmatch(key)
        assert not totals.uncounted
        kept = self._read("totals.json", TOTALS_BYTES_MAX)
        kept.pop(key, None)
        kept[key] = {name: getattr(totals, name) for name in _KEPT}
        return self._write("totals.json", dict(list(kept.items())[-TOTALS_MAX:]))

    def load_counts(self) -> dict[str, int]:
        """Tokens by the digest of what was counted."""
        read = self._read("counts.json", COUNTS_BYTES_MAX)
        return {key: value for key, value in read.items() if _KEY.fullmatch(key) and _is_count(value)}  # pyright: ignore[reportReturnType]

    def save_counts(self, news: Mapping[str, int]) -> bool:
        """Add `news`; False when it cannot be done."""
        kept = {key: count for key, count in self.load_counts().items() if key not in news}
        return self._write("counts.json", dict(list({**kept, **news}.items())[-COUNTS_MAX:]))

    def _read(self, name: str, bytes_max: int) -> JsonObject:
        path = self._folder / name
        try:
            if path.stat().st_size > bytes_max:
                return {}
            stored = cast("JsonValue", json.loads(path.read_bytes()))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            return {}
        kept = stored.get("o200k")
        return kept if isinstance(kept, dict) else {}

    def _write(self, name: str, kept: Mapping[str, JsonValue]) -> bool:
        content = json.dumps({"format": FORMAT, "o200k": dict(kept)}, separators=(",", ":")).encode()
        try:
            private_folder(self._folder)
            replace_private_file(self._folder / name, content, durable=False)  # counted again
        except (OSError, StoreFolderError):
            return False
        return True


def _totals(stored: JsonValue) -> ToolTokens | None:
    if not isinstance(stored, dict) or not all(_is_count(stored.get(name)) for name in _KEPT):
        return None
    return ToolTokens(**{name: cast("int", stored[name]) for name in _KEPT})


def _is_count(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _TOKENS_MAX
