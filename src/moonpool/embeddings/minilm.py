"""The network with 8-bit weights, written as an ONNX file of about 23 MB, and run: one text at a time, on one thread.

One text at a time, so there is no padding and no mask, and a text's vector does not depend on other texts: quantisation
at run time takes its range from that text alone. Weights use 7 of their 8 bits: processors without newer instructions
add products in 16 bits, which then cannot overflow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from moonpool.embeddings.arrays import numpy, onnxruntime
from moonpool.embeddings.onnx_file import FLOAT, OnnxFile
from moonpool.embeddings.wordpiece import CLS, PIECES_MAX, SEP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.embeddings.weights import Weights
    from moonpool.embeddings.wordpiece import WordPiece

WIDTH: Final = 384
_LAYERS: Final = 6
_HEADS: Final = 12
_STEPS: Final = 63  # 7 bits with a sign
_ROW_STEPS: Final = 127
_EPSILON: Final = 1e-12


def minilm_graph(weights: Weights) -> bytes:
    """The ONNX file. Input `pieces` [n] and `places` [n], output [n, 384], one row per piece."""
    np, file = numpy(), OnnxFile()
    table, scale = _quantised(weights.array("embeddings.word_embeddings.weight"), axis=1, steps=_ROW_STEPS)
    words = file.one("Cast", file.one("Gather", file.constant(table), "pieces"), to=FLOAT)
    words = file.one("Mul", words, file.one("Gather", file.constant(scale), "pieces"))
    places = weights.array("embeddings.position_embeddings.weight")[:PIECES_MAX]
    places = places + weights.array("embeddings.token_type_embeddings.weight")[0]
    state = file.one("Add", words, file.one("Gather", file.constant(places.astype(np.float32)), "places"))
    state = _normed(file, weights, state, "embeddings.LayerNorm")
    for layer in range(_LAYERS):
        state = _layer(file, weights, state, f"encoder.layer.{layer}.")
    shape = ["pieces_count", WIDTH]
    return file.finish({"pieces": ["pieces_count"], "places": ["pieces_count"]}, state, shape)


def _layer(file: OnnxFile, weights: Weights, state: str, at: str) -> str:
    np = numpy()
    size = WIDTH // _HEADS
    three = [f"{at}attention.self.{name}" for name in ("query", "key", "value")]
    matrix = np.concatenate([weights.array(f"{name}.weight").T for name in three], axis=1)
    bias = np.concatenate([weights.array(f"{name}.bias") for name in three])
    mixed = _dense(file, state, matrix, bias)
    mixed = file.one("Reshape", mixed, file.constant(np.array([-1, 3, _HEADS, size], dtype=np.int64)))
    mixed = file.one("Transpose", mixed, perm=[1, 2, 0, 3])
    query, key, value = (
        file.one("Gather", mixed, file.constant(np.array(place, dtype=np.int64)), axis=0) for place in range(3)
    )
    query = file.one("Mul", query, file.constant(np.array(size**-0.5, dtype=np.float32)))
    shares = file.one("Softmax", file.one("MatMul", query, file.one("Transpose", key, perm=[0, 2, 1])), axis=-1)
    seen = file.one("Transpose", file.one("MatMul", shares, value), perm=[1, 0, 2])
    seen = file.one("Reshape", seen, file.constant(np.array([-1, WIDTH], dtype=np.int64)))
    seen = _linear(file, weights, seen, f"{at}attention.output.dense")
    state = _normed(file, weights, file.one("Add", seen, state), f"{at}attention.output.LayerNorm")
    inner = file.one("Gelu", _linear(file, weights, state, f"{at}intermediate.dense"))
    outer = _linear(file, weights, inner, f"{at}output.dense")
    return _normed(file, weights, file.one("Add", outer, state), f"{at}output.LayerNorm")


def _linear(file: OnnxFile, weights: Weights, state: str, name: str) -> str:
    return _dense(file, state, weights.array(f"{name}.weight").T, weights.array(f"{name}.bias"))


def _dense(file: OnnxFile, state: str, matrix: Any, bias: Any) -> str:
    """`state @ matrix + bias` with the state quantised at run time and the matrix by column."""
    table, scale = _quantised(matrix, axis=0, steps=_STEPS)
    coarse, step, zero = file.node("DynamicQuantizeLinear", state, outputs=3)
    product = file.one("Cast", file.one("MatMulInteger", coarse, file.constant(table), zero), to=FLOAT)
    product = file.one("Mul", product, file.one("Mul", file.constant(scale), step))
    return file.one("Add", product, file.constant(bias))


def _normed(file: OnnxFile, weights: Weights, state: str, name: str) -> str:
    gain, offset = (file.constant(weights.array(f"{name}.{part}")) for part in ("weight", "bias"))
    return file.one("LayerNormalization", state, gain, offset, axis=-1, epsilon=_EPSILON)


def _quantised(matrix: Any, *, axis: int, steps: int) -> tuple[Any, Any]:
    """Integers of at most `steps`, and the scale along the other axis."""
    np = numpy()
    scale = np.maximum(np.abs(matrix).max(axis=axis, keepdims=True), 1e-9) / steps
    return np.ascontiguousarray(np.rint(matrix / scale).astype(np.int8)), scale.astype(np.float32)


class MiniLmModel:
    """Embeds text with the network."""

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
