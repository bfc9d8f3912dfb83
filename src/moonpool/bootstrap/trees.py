"""Stored trees from settings, for the service and for commands."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from moonpool.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    from moonpool.features.storage.base import Trees
    from moonpool.settings import Settings
    from moonpool.store.database.base import Database


@asynccontextmanager
async def open_trees(
    settings: Settings,  # noqa: ARG001  the storage of decision 0091 takes them
    data: Path,  # noqa: ARG001
    environ: Mapping[str, str],  # noqa: ARG001
    database: Database,  # noqa: ARG001  the service's
) -> AsyncGenerator[Trees]:
    """Open them. Raises ConfigError, StorageError."""
    raise ConfigError("this build has no storage for threads and volumes")
    yield  # type: ignore[unreachable]
