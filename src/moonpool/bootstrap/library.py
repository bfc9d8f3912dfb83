"""The library of this installation: its store, and changes to it."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from moonpool.bootstrap.caller_grants import local_principal
from moonpool.bootstrap.folders import data_folder
from moonpool.bootstrap.stores import open_stores
from moonpool.bootstrap.tools import make_redactor
from moonpool.core.audit_records import LibraryRecord
from moonpool.core.errors import MoonpoolError
from moonpool.features.library.service import LibraryChanges
from moonpool.redaction.redactor import Tally
from moonpool.store.journals import open_journal_place
from moonpool.store.paths import DEFAULT_TENANT, tenant_dir

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from moonpool.configuration.servers import McpConfig
    from moonpool.core.audit import Journal, JournalReader
    from moonpool.features.library.service import LibraryStorage
    from moonpool.settings import Settings

_log = logging.getLogger(__name__)


async def settle_library(journal: Journal, reader: JournalReader, library: LibraryStorage) -> None:
    """Record the outcome of a change whose process died. A failure is logged; the next call tries again."""
    changes = _changes(journal, reader, library)
    try:
        await changes.settle()
    except MoonpoolError as error:
        _log.error("the last change of the library cannot be put on record: %s", error)


@asynccontextmanager
async def open_library_changes(
    settings: Settings, config: McpConfig | None, environ: Mapping[str, str], tenant_id: str = DEFAULT_TENANT
) -> AsyncGenerator[LibraryChanges]:
    """Changes to a tenant's library, which are recorded; content with a secret is refused.

    Raises JournalError, DatabaseError.
    """
    redactor = make_redactor(settings, config)
    data = data_folder(settings, environ)
    folder = tenant_dir(data, tenant_id)
    async with (
        open_stores(settings, data, environ) as stores,
        open_journal_place(settings, folder, tenant_id) as place,
        place.open(lazily=False) as journal,
    ):
        yield _changes(
            journal,
            place.reader(),
            stores.of(tenant_id, folder).library(),
            holds_secret=lambda content: redactor.data(content, Tally()) != content,
        )


def _changes(
    journal: Journal,
    reader: JournalReader,
    library: LibraryStorage,
    *,
    holds_secret: Callable[[bytes], bool] = lambda _: False,
) -> LibraryChanges:
    return LibraryChanges(
        library,
        journal,
        local_principal(),
        has_ended=lambda change_id: reader.has(change_id, LibraryRecord.kind),
        holds_secret=holds_secret,
    )
