"""What calls taught about tools, kept between processes: one private file per caller and server configuration.

A file is named by the digest of whom it belongs to, holds at most `TOOLS_MAX` definitions, the newest last, and at most
`FILE_BYTES_MAX`. One that is missing, too large, damaged or of another format is as good as empty; one that cannot be
written costs what was learned, nothing else. Two processes that write at once lose what the slower one did not read.
Blocking: call from a worker thread.
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Final, cast

from moonpool.features.learned_types.model import LearnedType
from moonpool.store.private_files import StoreFolderError, private_folder, replace_private_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from moonpool.core.json import JsonObject, JsonValue

FORMAT: Final = 1
FILE_BYTES_MAX: Final = 1024**2
TOOLS_MAX: Final = 500
FILES_MAX: Final = 200
_KEY: Final = re.compile(r"sha256:[0-9a-f]{64}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


class LearnedTypeStore:
    """Lessons below one private folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, key: str) -> dict[str, LearnedType]:
        """What is kept under `key`, by the digest of a tool's definition."""
        path = self._path(key)
        try:
            if path.stat().st_size > FILE_BYTES_MAX:
                return {}
            stored = cast("JsonValue", json.loads(path.read_bytes()))
        except (OSError, ValueError, RecursionError):
            return {}
        tools = stored.get("tools") if isinstance(stored, dict) and stored.get("format") == FORMAT else None
        learned_types: dict[str, LearnedType] = {}
        for digest, learned_type in tools.items() if isinstance(tools, dict) else ():
            with contextlib.suppress(ValueError):
                if _DIGEST.fullmatch(digest):
                    learned_types[digest] = LearnedType.from_json(learned_type)
        return learned_types

    def save(self, key: str, news: Mapping[str, LearnedType]) -> bool:
        """Add `news` to what is kept under `key`; False when it cannot be kept."""
        kept = {digest: learned_type for digest, learned_type in self.load(key).items() if digest not in news}
        newest = list({**kept, **news}.items())[-TOOLS_MAX:]
        while newest:
            tools: JsonObject = {digest: learned_type.to_json() for digest, learned_type in newest}
            content = json.dumps({"format": FORMAT, "tools": tools}, separators=(",", ":")).encode()
            if len(content) <= FILE_BYTES_MAX:
                return self._write(key, content)
            newest = newest[len(newest) // 2 + 1 :]
        return False

    def _write(self, key: str, content: bytes) -> bool:
        try:
            private_folder(self._folder)
            replace_private_file(self._path(key), content, durable=False)  # learned anew
            self._drop_oldest()
        except (OSError, StoreFolderError):
            return False
        return True

    def _drop_oldest(self) -> None:
        files = sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in files[:-FILES_MAX]:
            path.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError("learned types are kept under a SHA-256 digest")
        return self._folder / f"{key.removeprefix('sha256:')}.json"
