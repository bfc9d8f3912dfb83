"""`moonpool session put|get|files|archive`: one transfer with the process of a named session."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from moonpool.cli import transfers
from moonpool.cli.exit_codes import EXIT_INTERRUPTED, EXIT_OK
from moonpool.cli.interrupts import Interrupts
from moonpool.cli.session_lookup import session_folder
from moonpool.core.errors import InputError
from moonpool.runtime.file_errors import shown
from moonpool.runtime.local_files import landing_path
from moonpool.runtime.session_files import checked_name
from moonpool.runtime.session_transfers import RemoteFiles

if TYPE_CHECKING:
    import socket
    from collections.abc import Coroutine

    from moonpool.runtime.files import FileReceipt


def put(session: str, local: Path, path: str | None, *, unpack: bool, force: bool) -> int:
    """Send a file, or an archive to be unpacked."""
    files = _files(session)
    if unpack:
        return _finish(transfers.put_archive(files, local, path or ".", replace=force), path or ".")
    return _finish(transfers.put_file(files, local, path or local.name, replace=force), path or local.name)


def get(session: str, path: str, local: Path | None, *, force: bool) -> int:
    """Fetch a file."""
    target = landing_path(local, path)
    return _finish(transfers.get_file(_files(session), path, target, force=force), str(target))


def archive(session: str, path: str, output: Path | None, into: Path | None, *, force: bool) -> int:
    """Fetch a folder as a tar file, or as a folder."""
    if output is not None and into is not None:
        raise InputError("give --output for a tar file or --into for a folder, not both")
    if into is not None:
        if force:
            raise InputError("--force replaces a tar file; --into makes a new folder and replaces nothing")
        return _finish(transfers.get_tree(_files(session), path, into), str(into))
    target = output or Path(f"{checked_name(session)}.tar")
    return _finish(transfers.get_archive(_files(session), path, target, force=force), str(target))


def list_files(session: str, path: str, *, recursive: bool, as_json: bool) -> None:
    """Print what is in a folder."""
    listing = asyncio.run(_files(session).list(path, recursive=recursive))
    transfers.print_listing(listing, as_json=as_json)


def _files(session: str) -> RemoteFiles:
    folder = session_folder()
    name = checked_name(session)

    def connect() -> socket.socket:
        connection = folder.connect(name)
        if connection is None:
            known = ", ".join(folder.names()) or "none"
            raise InputError(f"there is no session {name!r}; known: {known}; `moonpool run --session` starts one")
        return connection

    return RemoteFiles(connect)


def _finish(transfer: Coroutine[object, object, FileReceipt], target: str) -> int:
    """Carry it out; a signal gives it up and leaves nothing behind."""

    async def carry_out() -> FileReceipt:
        Interrupts()
        return await transfer

    try:
        receipt = asyncio.run(carry_out())
    except asyncio.CancelledError:
        typer.echo("moonpool: interrupted; nothing was kept", err=True)
        return EXIT_INTERRUPTED
    typer.echo(f"{shown(target)}: {receipt.size:,} bytes, sha256 {receipt.sha256}")
    if receipt.skipped:
        typer.echo(
            f"moonpool: {receipt.skipped} entries were left out: links that lead out, pipes, or what cannot be read",
            err=True,
        )
    return EXIT_OK
