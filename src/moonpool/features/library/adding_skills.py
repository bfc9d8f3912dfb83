"""Adding a skill: a person's folder becomes a copy in the library, with a record of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.features.library.model.skills import skill_source
from moonpool.features.library.skill_folder import read_skill_folder

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.features.library.model.entries import LibraryEntry
    from moonpool.features.library.service import LibraryChanges


@dataclass(frozen=True, kw_only=True)
class AddedSkill:
    """What was kept of a folder, and what of it was not."""

    entry: LibraryEntry
    left_out: tuple[str, ...]  # relative paths


async def add_skill(changes: LibraryChanges, folder: Path, *, replace: bool = False) -> AddedSkill:
    """Keep a copy of `folder`; later changes of it change nothing here.

    Raises InputError, StoreFolderError and JournalError; nothing was changed then.
    """
    found = await asyncio.to_thread(read_skill_folder, folder)
    source = skill_source(found.files, place=str(folder))
    entry = await changes.save(source, replace=replace)
    return AddedSkill(entry=entry, left_out=tuple(found.left_out))
