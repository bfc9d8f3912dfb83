"""Runs the network: one text at a time, on one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moonpool.embeddings.arrays import numpy, onnxruntime
from moonpool.embeddings.minilm_graph import WIDTH
from moonpool.embeddings.wordpiece import CLS, SEP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.embeddings.wordpiece import WordPiece


class MiniLmModel:
    """Embeds by the network."""

    word_share: float = 0.4
    floor: float = 0.25
    bonus_share: float = 0.3
    name_share: float = 0.45

    def __init__(self, content: bytes, pieces: WordPiece) -> None:
        runtime = onnxruntime()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self._pieces = pieces

    def embed(self, texts: Sequence[str]) -> Any:
        """One row per text, of length 1."""
        np = numpy()
        rows = np.zeros((len(texts), WIDTH), dtype=np.float32)
        for place, text in enumerate(texts):
            row = self.one([CLS, *self._pieces.pieces(text), SEP])
            rows[place] = row / max(float(np.linalg.norm(row)), 1e-9)
        return rows

    def one(self, pieces: list[int]) -> Any:
        """The mean of the network's rows for one list of pieces."""
        np = numpy()
        numbers = np.array(pieces, dtype=np.int64)
        return self._session.run(None, {"pieces": numbers, "places": np.arange(len(pieces))})[0].mean(axis=0)
