"""A network of a few kilobytes, and what it must answer, worked out with 32-bit numbers."""

from __future__ import annotations

import json
import math
from typing import Any

WIDTH, HEADS, PIECES = 8, 2, 112
VOCABULARY = "\n".join([*(f"[{number}]" for number in range(103)), "send", "mail", "read", "file", "city", "rain"])
_EMBEDDINGS = {"word_embeddings": PIECES, "position_embeddings": 128, "token_type_embeddings": 2}
_MATRICES = {
    "attention.self.query": (WIDTH, WIDTH),
    "attention.self.key": (WIDTH, WIDTH),
    "attention.self.value": (WIDTH, WIDTH),
    "attention.output.dense": (WIDTH, WIDTH),
    "intermediate.dense": (4 * WIDTH, WIDTH),
    "output.dense": (WIDTH, 4 * WIDTH),
}


def arrays(np: Any) -> dict[str, Any]:
    """The weights of one layer, always the same."""
    chance = np.random.default_rng(5)
    made = {f"embeddings.{name}.weight": chance.normal(size=(rows, WIDTH)) for name, rows in _EMBEDDINGS.items()}
    for name, shape in _MATRICES.items():
        made[f"encoder.layer.0.{name}.weight"] = chance.normal(size=shape) / math.sqrt(shape[1])
        made[f"encoder.layer.0.{name}.bias"] = chance.normal(size=shape[0]) / 10
    for place in ("embeddings", "encoder.layer.0.attention.output", "encoder.layer.0.output"):
        made[f"{place}.LayerNorm.weight"] = 1 + chance.normal(size=WIDTH) / 10
        made[f"{place}.LayerNorm.bias"] = chance.normal(size=WIDTH) / 10
    return {name: array.astype(np.float32) for name, array in made.items()}


def safetensors(found: dict[str, Any]) -> bytes:
    header, body = {}, b""
    for name, array in found.items():
        raw = array.tobytes()
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def expected(np: Any, weights: dict[str, Any], pieces: list[int]) -> Any:
    """The mean of the network's rows, as the paper says."""

    def dense(rows: Any, name: str) -> Any:
        return rows @ weights[f"encoder.layer.0.{name}.weight"].T + weights[f"encoder.layer.0.{name}.bias"]

    def normed(rows: Any, name: str) -> Any:
        centred = rows - rows.mean(axis=-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return centred / scale * weights[f"{name}.LayerNorm.weight"] + weights[f"{name}.LayerNorm.bias"]

    words, places, types = (weights[f"embeddings.{name}.weight"] for name in _EMBEDDINGS)
    state = normed(words[pieces] + places[: len(pieces)] + types[0], "embeddings")
    query, key, value = (
        dense(state, f"attention.self.{name}").reshape(-1, HEADS, WIDTH // HEADS).transpose(1, 0, 2)
        for name in ("query", "key", "value")
    )
    shares = np.exp(query @ key.transpose(0, 2, 1) / math.sqrt(WIDTH // HEADS))
    seen = (shares / shares.sum(axis=-1, keepdims=True)) @ value
    seen = seen.transpose(1, 0, 2).reshape(-1, WIDTH)
    state = normed(dense(seen, "attention.output.dense") + state, "encoder.layer.0.attention.output")
    inner = dense(state, "intermediate.dense")
    inner = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
    return normed(dense(inner, "output.dense") + state, "encoder.layer.0.output").mean(axis=0)
