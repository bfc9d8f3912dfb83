"""Vectors of one catalog's tools, and the cache that keeps them between processes.

A tool's row is the weighted mean of two vectors, of its name and of its whole text: a long description alone would blur
what the tool does.

A row's key is the digest of its texts, in a file named by the model's digest: a changed tool or server is embedded
again, everything else is read. The file is private; a damaged one is rebuilt.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from moonpool.embeddings.arrays import numpy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CACHED_MAX: Final = 50_000
_DIGEST_BYTES: Final = 16


class ToolText(Protocol):
    """`moonpool.catalog.dense.DenseText`."""

    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...


class EmbeddingModel(Protocol):
    """Turns texts into rows of length 1; the same text always gives the same row."""

    word_share: float
    floor: float
    bonus_share: float
    name_share: float  # of a tool's name in its row

    def embed(self, texts: Sequence[str]) -> Any: ...


@dataclass(frozen=True, slots=True)
class ToolVectors:
    """Implements `moonpool.catalog.dense.Similarity`."""

    model: EmbeddingModel
    rows: Any

    @property
    def word_share(self) -> float:
        return self.model.word_share

    @property
    def floor(self) -> float:
        return self.model.floor

    @property
    def bonus_share(self) -> float:
        return self.model.bonus_share

    def to_tools(self, query: str) -> Sequence[float]:
        return (self.rows @ self.model.embed([query])[0]).tolist() if len(self.rows) else []


class VectorCache:
    """Rows by digest of their text, in one file."""

    def __init__(self, read: Callable[[], bytes], write: Callable[[bytes], None]) -> None:
        self._read, self._write = read, write

    def rows(self, model: EmbeddingModel, texts: Sequence[ToolText], stop: Callable[[], bool]) -> Any:
        """One row per text; computes and stores missing ones. None if `stop` was set."""
        np = numpy()
        digests = [_digest(model, text) for text in texts]
        known = self._known(np)
        missing = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in known}
        for digest, text in missing.items():
            if stop():
                return None
            name, whole = model.embed([text.name, text.text])
            known[digest] = (model.name_share * name + (1 - model.name_share) * whole).astype(np.float16)
        if missing:
            self._file(np, known, set(digests))
        # With the stored precision, so that the first process ranks like all later ones.
        return np.array([known[digest] for digest in digests], dtype=np.float32)

    def _known(self, np: Any) -> dict[bytes, Any]:
        content = self._read()
        width = int.from_bytes(content[:4], "little")
        step = _DIGEST_BYTES + 2 * width
        body = content[4:]
        if not width or len(body) % step:
            return {}
        return {
            body[at : at + _DIGEST_BYTES]: np.frombuffer(body[at + _DIGEST_BYTES : at + step], dtype="<f2")
            for at in range(0, len(body), step)
        }

    def _file(self, np: Any, known: dict[bytes, Any], used: set[bytes]) -> None:
        if len(known) > CACHED_MAX:
            known = {digest: row for digest, row in known.items() if digest in used}
        width = len(next(iter(known.values())))
        parts = [width.to_bytes(4, "little")]
        for digest, row in known.items():
            parts += [digest, np.asarray(row, dtype="<f2").tobytes()]
        self._write(b"".join(parts))


def _digest(model: EmbeddingModel, text: ToolText) -> bytes:
    made_of = f"{model.name_share}\n{text.name}\n{text.text}"
    return hashlib.sha256(made_of.encode("utf-8", "replace")).digest()[:_DIGEST_BYTES]
