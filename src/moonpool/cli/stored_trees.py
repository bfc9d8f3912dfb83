"""What `moonpool threads` and `moonpool volumes` share: the trees of an organisation, and files of one."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final, TypeVar

import click

from moonpool.cli.approval_texts import answerer, shown_time
from moonpool.cli.printer import print_json, print_table, remark
from moonpool.features.storage.model import checked_path

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from moonpool.cli.service_data import ChosenTenant
    from moonpool.features.storage.base import TreeState
    from moonpool.features.storage.contents import Listed
    from moonpool.features.storage.model import Entry, TreeName
    from moonpool.features.storage.recorded_files import RecordedFiles

_T = TypeVar("_T")
_COLUMNS: Final = ("bytes", "files", "created", "last used", "state")
path_argument = click.argument("path", metavar="PATH", help="In it, from its root: output/chart.png.")


def with_files(tenant: ChosenTenant, use: Callable[[RecordedFiles], Awaitable[_T]]) -> _T:
    """Open the trees of an organisation and call `use`; changes go on record.

    Raises ConfigError, DatabaseError, StorageError, JournalError.
    """
    from moonpool.bootstrap.database import open_service_data
    from moonpool.bootstrap.storage import open_trees
    from moonpool.features.storage.recorded_files import RecordedFiles
    from moonpool.store.journals import open_journal_place

    settings, data = tenant.settings, tenant.data

    async def run() -> _T:
        async with (
            open_service_data(settings, data, os.environ) as opened,
            open_trees(settings, data, os.environ, opened.database, serving=False) as trees,
            open_journal_place(settings, tenant.folder, tenant.tenant_id) as place,
            place.open(lazily=True) as journal,
        ):
            own = trees.of(tenant.tenant_id)
            return await use(RecordedFiles(trees=own, journal=journal, principal=answerer().name))

    return asyncio.run(run())


def put_file(tenant: ChosenTenant, name: TreeName, file: Path, path: str | None) -> None:
    """Write a local file into a tree. Raises LocalFileError, and what `RecordedFiles.put` raises."""
    from moonpool.engine.files.local_files import local_source

    async def put(files: RecordedFiles) -> Entry:
        async with local_source(file) as source:
            where = checked_path(path or file.name)
            return await files.put(name, where, source.chunks(), size=source.size, mode=source.mode & 0o777)

    entry = with_files(tenant, put)
    remark(f"put {entry.path} ({entry.size:,} bytes) into {name.kind} {name.name}")


def get_file(tenant: ChosenTenant, name: TreeName, path: str, file: Path | None, *, force: bool) -> None:
    """Fetch a file of a tree; it appears here only when it is whole. Raises LocalFileError, UnknownFileError."""
    from moonpool.engine.files.local_files import landing, landing_path
    from moonpool.features.storage.contents import file_at

    where = checked_path(path)
    target = landing_path(file, where)

    async def get(files: RecordedFiles) -> Entry:
        snapshot = await files.trees.snapshot(name)
        entry = file_at(snapshot.tree, where)
        async with landing(target, force=force) as landed:
            async for piece in snapshot.read(entry):
                await landed.write(piece)
        return entry

    entry = with_files(tenant, get)
    remark(f"wrote {target} ({entry.size:,} bytes)")


def files_of(tenant: ChosenTenant, name: TreeName, folder: str) -> tuple[TreeState, Sequence[Listed]]:
    """A tree and all that is in a folder of it. Raises UnknownTreeError."""
    from moonpool.features.storage.contents import folder_path, listed
    from moonpool.features.storage.model import TREE_ENTRIES_MAX

    below = folder_path(folder)

    async def show(files: RecordedFiles) -> tuple[TreeState, Sequence[Listed]]:
        found: list[Listed] = []
        tree, cursor = (await files.trees.snapshot(name)).tree, None
        while True:
            page = listed(tree, below, recursive=True, cursor=cursor, limit=TREE_ENTRIES_MAX)
            found += page.entries
            if (cursor := page.next_cursor) is None:
                return await files.trees.state(name), found

    return with_files(tenant, show)


def print_trees(tenant: ChosenTenant, found: Sequence[TreeState], *, called: str, as_json: bool) -> None:
    """A line for each; `called` is what its name is."""
    if as_json:
        for one in found:
            print_json(tree_json(one, called=called))
    elif found:
        print_table((called, "owner", *_COLUMNS), (_cells(one) for one in found))
    else:
        remark(
            "there are none" if tenant.org else "the command line's own tenant has none; --org names an organisation"
        )


def tree_json(one: TreeState, *, called: str) -> dict[str, object]:
    return {
        called: one.name.name,
        "owner": one.name.owner or None,
        "size": one.bytes_count,
        "entries": one.entry_count,
        "created_at": shown_time(one.created_at),
        "last_used_at": shown_time(one.used_at),
        "held_by": one.held_by or None,
    }


def file_json(one: Listed) -> dict[str, object]:
    modified = shown_time(one.modified_ns / 1e9) if one.modified_ns else None
    return {"path": one.path, "kind": one.kind, "size": one.size, "modified": modified}


def print_files(found: Sequence[Listed]) -> None:
    """A table. SECURITY: names are somebody's code's; the table makes them printable."""
    print_table(
        ("path", "kind", "bytes", "modified"),
        (
            (one.path, one.kind, f"{one.size:,}", shown_time(one.modified_ns / 1e9) if one.modified_ns else "")
            for one in found
        ),
    )


def _cells(one: TreeState) -> tuple[str, ...]:
    owner = one.name.owner or ("keys" if one.name.kind == "thread" else "organisation")
    return (
        one.name.name, owner, f"{one.bytes_count:,}", f"{one.entry_count:,}",
        shown_time(one.created_at), shown_time(one.used_at), f"used by {one.held_by}" if one.held_by else "free",
    )  # fmt: skip
