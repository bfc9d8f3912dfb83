"""Files between this machine and a session, for `moonpool session put|get|files|archive` and `moonpool run`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from moonpool.cli.printer import print_table, remark
from moonpool.core.errors import InputError
from moonpool.engine.files.errors import shown
from moonpool.engine.files.local_files import landing, landing_path, local_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.engine.files.service import ArchiveForm, FileListing, FileReceipt
    from moonpool.engine.files.streams import Sink, Source


class Files(Protocol):
    """The files of a session, here or in its own process."""

    async def put(self, path: str, source: Source, *, mode: int = ..., replace: bool = ...) -> FileReceipt: ...

    async def unpack(
        self, path: str, source: Source, *, form: ArchiveForm = ..., replace: bool = ...
    ) -> FileReceipt: ...

    async def get(self, path: str, sink: Sink) -> FileReceipt: ...

    async def archive(self, path: str, sink: Sink) -> FileReceipt: ...

    async def list(self, path: str = ..., *, recursive: bool = ...) -> FileListing: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One file of a `moonpool run`: its local path and its path in the session."""

    local: Path
    path: str


def puts_of(texts: Sequence[str]) -> tuple[Transfer, ...]:
    """`LOCAL[:PATH]`; the last colon separates them. Raises InputError."""
    found: list[Transfer] = []
    for text in texts:
        local, _, path = text.rpartition(":") if ":" in text else (text, "", "")
        if not local:
            raise InputError(f"--put {shown(text)!r} does not name a file here; give LOCAL or LOCAL:PATH")
        found.append(Transfer(local=Path(local), path=path or Path(local).name))
    return tuple(found)


def gets_of(texts: Sequence[str], *, force: bool) -> tuple[Transfer, ...]:
    """`PATH[:LOCAL]`; the last colon separates them. Raises InputError, LocalFileError."""
    found: list[Transfer] = []
    for text in texts:
        path, _, local = text.rpartition(":") if ":" in text else (text, "", "")
        if not path:
            raise InputError(f"--get {shown(text)!r} names no file of the sandbox; give PATH or PATH:LOCAL")
        transfer = Transfer(local=landing_path(Path(local) if local else None, path), path=path)
        if not force and (transfer.local.exists() or transfer.local.is_symlink()):
            raise InputError(f"{transfer.local} is there already; name another with --get PATH:LOCAL, or say --force")
        found.append(transfer)
    return tuple(found)


async def put_all(files: Files, transfers: Sequence[Transfer]) -> None:
    """Send files before code runs; existing files are replaced. Raises MoonpoolError."""
    for transfer in transfers:
        await put_file(files, transfer.local, transfer.path, replace=True)


async def put_file(files: Files, local: Path, path: str, *, replace: bool) -> FileReceipt:
    """Send one file."""
    async with local_source(local) as source:
        return await files.put(path, source.chunks(), mode=source.mode, replace=replace)


async def put_archive(files: Files, local: Path, path: str, *, replace: bool) -> FileReceipt:
    """Send a tar, tar.gz or zip to be unpacked in the session."""
    form: ArchiveForm = "zip" if local.suffix.lower() == ".zip" else "tar"
    async with local_source(local) as source:
        return await files.unpack(path, source.chunks(), form=form, replace=replace)


async def get_file(files: Files, path: str, local: Path, *, force: bool) -> FileReceipt:
    """Fetch one file; it appears only when it is complete."""
    async with landing(local, force=force) as file:
        return await files.get(path, file.write)


async def get_archive(files: Files, path: str, local: Path, *, force: bool) -> FileReceipt:
    """Fetch a folder as a tar file."""
    async with landing(local, force=force) as file:
        return await files.archive(path, file.write)


async def get_tree(files: Files, path: str, local: Path) -> FileReceipt:
    """Fetch a folder as a new local folder."""
    from moonpool.engine.files.extraction import landing_tree

    async with landing_tree(local) as file:
        return await files.archive(path, file.write)


def print_listing(listing: FileListing, *, as_json: bool) -> None:
    """Print entries for people or programs. SECURITY: names come from the sandbox; the table makes them printable."""
    import msgspec

    if as_json:
        for entry in listing.entries:
            click.echo(msgspec.json.encode(entry).decode())
    else:
        rows = [
            (
                shown(entry.path) + (" (escaped)" if entry.escaped else ""),
                entry.kind,
                f"{entry.size:,}",
                f"{entry.mode:04o}",
            )
            for entry in listing.entries
        ]
        print_table(("path", "kind", "bytes", "mode"), rows)
    if listing.truncated:
        remark("there is more; list a folder below")
