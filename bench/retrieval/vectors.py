"""Vectors for the bench: the models of a data folder, as a session would use them."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moonpool.bootstrap import data_folder
from moonpool.bootstrap.models import make_model, vector_maker
from moonpool.catalog.catalog import Catalog
from moonpool.embeddings.errors import DenseUnavailableError
from moonpool.settings import Settings

if TYPE_CHECKING:
    from bench.retrieval.query_sets import Collection


def have_model(dense: str) -> None:
    """Make the model that was asked for by name, where the data folder has none. Raises DenseUnavailableError."""
    settings = Settings.load(os.environ, dense=dense)
    data = data_folder(settings, os.environ)
    maker = vector_maker(settings, data)
    if maker is None:
        return
    try:
        maker.open()
    except DenseUnavailableError:
        sys.stderr.write("fetching the weights and making the model, once; this takes a few minutes\n")
        make_model(data, os.environ)


@dataclass(slots=True)
class CatalogMaker:
    """Makes catalogs, with vectors where `dense` says so. Raises DenseUnavailableError."""

    dense: str
    embedding_s: dict[str, float] = field(default_factory=dict[str, float])

    def __call__(self, collection: Collection) -> Catalog:
        catalog = Catalog(collection.manifest)
        settings = Settings.load(os.environ, dense=self.dense)
        maker: Any = vector_maker(settings, data_folder(settings, os.environ))
        if maker is not None:
            started = time.perf_counter()
            similarity = maker.similarity(collection.manifest)
            self.embedding_s[collection.name] = round(time.perf_counter() - started, 2)
            assert similarity is not None
            catalog.use_similarity(similarity)
        return catalog
