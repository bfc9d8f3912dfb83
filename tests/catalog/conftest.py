"""Fixtures of the catalog's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog.builders import catalog_of, published_manifest

if TYPE_CHECKING:
    from moonpool.catalog.catalog import Catalog
    from moonpool.core.manifest import Manifest


@pytest.fixture(scope="session")
def published() -> Manifest:
    return published_manifest()


@pytest.fixture(scope="session")
def published_catalog(published: Manifest) -> Catalog:
    return catalog_of(*published.servers)
