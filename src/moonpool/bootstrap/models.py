"""Vector search: where its model is, how it is built, and how a manifest becomes similarities."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING

from moonpool.catalog.dense import dense_texts
from moonpool.embeddings.arrays import need_extra
from moonpool.embeddings.fetch import fetch_weights
from moonpool.embeddings.models import build_model, open_model
from moonpool.embeddings.vectors import ToolVectors, VectorCache
from moonpool.environments.package_index import read_pip_settings, uv_variables
from moonpool.store.paths import models_dir
from moonpool.store.private_files import private_folder, replace_private_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.catalog.dense import Similarity
    from moonpool.core.manifest import Manifest
    from moonpool.embeddings.vectors import EmbeddingModel
    from moonpool.settings import Settings


@dataclass(slots=True)
class VectorMaker:
    """Embeds the tools of manifests; all methods block and belong in a thread."""

    folder: Path
    _model: EmbeddingModel | None = None
    _digest: str = ""
    _turn: Lock = field(default_factory=Lock)

    def open(self) -> None:
        """Load the model. Raises DenseUnavailableError."""
        with self._turn:
            if self._model is None:
                self._model, self._digest = open_model(self.folder)

    def similarity(self, manifest: Manifest, stop: Event | None = None) -> Similarity | None:
        """Embed tools that are not cached. None: `stop` was set meanwhile. Raises DenseUnavailableError."""
        self.open()
        assert self._model is not None
        with self._turn:
            path = self.folder / f"minilm-{self._digest[:16]}.vectors"
            cache = VectorCache(lambda: path.read_bytes() if path.is_file() else b"", lambda raw: _keep(path, raw))
            rows = cache.rows(self._model, dense_texts(manifest), stop.is_set if stop else lambda: False)
        return None if rows is None else ToolVectors(self._model, rows)

    def cached(self, manifest: Manifest) -> Similarity | None:
        """Similarity from the cache; None if a tool's vector is missing. Raises DenseUnavailableError."""
        nothing_new = Event()
        nothing_new.set()
        return self.similarity(manifest, nothing_new)


def vector_maker(settings: Settings, data: Path) -> VectorMaker | None:
    """The vector maker for the setting `dense`; None for search by words alone. The model is not loaded yet."""
    return VectorMaker(models_dir(data)) if settings.dense == "minilm" else None


def make_model(data: Path, environ: Mapping[str, str]) -> int:
    """Download the weights and build the model; returns its size in bytes. Raises DenseUnavailableError,
    StoreFolderError.
    """
    need_extra()  # before anything is downloaded
    private_folder(data / "private")
    folder = private_folder(models_dir(data))
    with tempfile.TemporaryDirectory(dir=folder, prefix=".weights-") as place:
        index = uv_variables(read_pip_settings(), environ)
        kept = {key: value for key, value in environ.items() if not key.startswith("PYTHON")}
        weights = fetch_weights(Path(place), {**kept, **index, "UV_NO_PROGRESS": "1"})
        return build_model(weights, folder, _write)


def _keep(path: Path, content: bytes) -> None:
    if os.access(path.parent, os.W_OK):
        _write(path, content)


def _write(path: Path, content: bytes) -> None:
    replace_private_file(path, content, durable=False)  # can be rebuilt from the published weights
