"""Blobs in memory, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moonpool.store.blobs.base import LISTED_MAX, check_content, check_name, check_prefix, missing, unusable

if TYPE_CHECKING:
    from collections.abc import Sequence


class MemoryBlobs:
    """`fails`: what is not possible now, of `write`, `read`, `remove`."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.fails: set[str] = set()

    async def put(self, name: str, content: bytes, /) -> None:
        self._maybe_fail("write")
        if check_name(name) in self.blobs:
            raise unusable("write")
        self.blobs[name] = bytes(check_content(content))

    async def get(self, name: str, /, offset: int = 0, length: int | None = None) -> bytes:
        self._maybe_fail("read")
        content = self.blobs.get(check_name(name))
        end = None if length is None else offset + length
        if content is None or len(content) < (end or offset):
            raise missing()
        return content[offset:end]

    async def delete(self, names: Sequence[str], /) -> None:
        self._maybe_fail("remove")
        for name in names:
            self.blobs.pop(check_name(name), None)

    async def list(self, prefix: str, /) -> Sequence[str]:
        self._maybe_fail("read")
        return [name for name in self.blobs if name.startswith(check_prefix(prefix))][:LISTED_MAX]

    async def check(self) -> None:
        self._maybe_fail("read")

    async def close(self) -> None:
        pass

    def _maybe_fail(self, doing: str) -> None:
        if doing in self.fails:
            raise unusable(doing)
