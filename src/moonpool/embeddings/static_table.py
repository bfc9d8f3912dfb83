"""One vector per piece of a word, as small as possible: what the network says about each piece alone.

A text's vector is the weighted mean of its pieces, rare ones counting more. That loses word order and half of the
network's worth and needs no network. Made by running the network over its vocabulary once, taking the 256 directions
that hold most of it, weighing each piece by its place in the vocabulary (which lists frequent words first), and keeping
8 bits a number: 7.9 MB.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from moonpool.embeddings.arrays import numpy
from moonpool.embeddings.errors import DenseUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.embeddings.wordpiece import WordPiece

WIDTH: Final = 256
_STEPS: Final = 127
_FIRST_PIECE: Final = 999  # before it stand marks and places left free
_COMMON: Final = 1e-4
_MAGIC: Final = b"moonpool static table 1\n"


def static_table(alone: Any) -> bytes:
    """The file, from the network's vectors of every piece alone [pieces, width]."""
    np = numpy()
    centred = alone - alone[_FIRST_PIECE:].mean(axis=0)
    _, directions = np.linalg.eigh(centred[_FIRST_PIECE:].T @ centred[_FIRST_PIECE:])
    short = centred @ directions[:, ::-1][:, :WIDTH]
    # Zipf: the chance of a word falls with its rank; what is not in the vocabulary's order counts as rare.
    rank = np.maximum(np.arange(len(alone)) - _FIRST_PIECE, 1)
    chance = 1.0 / (rank * np.log(len(alone)))
    short *= (_COMMON / (_COMMON + chance))[:, None]
    scale = np.maximum(np.abs(short).max(axis=1), 1e-9) / _STEPS
    table = np.rint(short / scale[:, None]).astype(np.int8)
    shape = json.dumps({"pieces": len(alone), "width": WIDTH}).encode() + b"\n"
    return _MAGIC + shape + table.tobytes() + scale.astype("<f2").tobytes()


class StaticModel:
    """Embeds by the table."""

    word_share: float = 0.6
    floor: float = 0.45
    bonus_share: float = 1.0
    name_share: float = 0.0

    def __init__(self, content: bytes, pieces: WordPiece) -> None:
        np = numpy()
        if not content.startswith(_MAGIC):
            raise DenseUnavailableError("the table of vectors is not of this version; make it again")
        line, _, body = content[len(_MAGIC) :].partition(b"\n")
        shape: dict[str, int] = json.loads(line)
        rows, width = shape["pieces"], shape["width"]
        self._table = np.frombuffer(body[: rows * width], dtype=np.int8).reshape(rows, width)
        self._scale = np.frombuffer(body[rows * width :], dtype="<f2").astype(np.float32)
        self._pieces = pieces

    def embed(self, texts: Sequence[str]) -> Any:
        """One row per text, of length 1, or 0 for a text without pieces."""
        np = numpy()
        rows = np.zeros((len(texts), self._table.shape[1]), dtype=np.float32)
        for place, text in enumerate(texts):
            pieces = self._pieces.pieces(text)
            if pieces:
                row = self._scale[pieces] @ self._table[pieces].astype(np.float32)
                rows[place] = row / max(float(np.linalg.norm(row)), 1e-9)
        return rows
