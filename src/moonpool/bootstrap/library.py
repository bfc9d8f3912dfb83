"""The library of this installation: where it is kept, and who may change it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from moonpool.bootstrap.places import data_folder
from moonpool.bootstrap.tickets import local_principal
from moonpool.bootstrap.tools import make_redactor
from moonpool.broker.redaction import Tally
from moonpool.runtime.library import LibraryChanges
from moonpool.store.journal import open_journal
from moonpool.store.library import LibraryStore
from moonpool.store.paths import journal_path, library_dir

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from moonpool.broker.config import McpConfig
    from moonpool.settings import Settings


def library_store(settings: Settings, environ: Mapping[str, str]) -> LibraryStore:
    """What is kept of saved actions and skills."""
    return LibraryStore(library_dir(data_folder(settings, environ)))


@asynccontextmanager
async def open_library_changes(
    settings: Settings, config: McpConfig | None, environ: Mapping[str, str]
) -> AsyncGenerator[LibraryChanges]:
    """Change the library, on record; what holds a secret is refused. Raises JournalError."""
    redactor = make_redactor(settings, config)
    async with open_journal(journal_path(data_folder(settings, environ))) as journal:
        yield LibraryChanges(
            library_store(settings, environ),
            journal,
            local_principal(),
            holds_secret=lambda content: redactor.data(content, Tally()) != content,
        )
