"""`moonpool session list|close|put|get|files|archive`: manage the sessions of `moonpool run --session`."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from moonpool.cli import transfers
from moonpool.cli.commands import command_group, json_lines
from moonpool.cli.config_choice import data_folder
from moonpool.cli.exit_codes import EXIT_INTERRUPTED, EXIT_OK
from moonpool.cli.interrupts import Interrupts
from moonpool.cli.printer import print_table, remark
from moonpool.core.errors import InputError
from moonpool.engine.files.errors import shown
from moonpool.engine.files.local_files import landing_path
from moonpool.server.named_sessions.client import ask_host
from moonpool.server.named_sessions.sockets import SessionFolder, checked_name, peer_of
from moonpool.server.named_sessions.transfers import RemoteFiles
from moonpool.server.named_sessions.wire import Close, State, Status
from moonpool.settings import Settings

if TYPE_CHECKING:
    import socket
    from collections.abc import Coroutine

    from moonpool.engine.files.service import FileReceipt

_CLOSE_S: Final = 30.0

app = command_group("Sessions that `moonpool run --session NAME` keeps alive.")


@app.command("list")
@json_lines
def list_(*, as_json: bool) -> None:
    """List sessions: what they run on, and when they were last used."""
    asyncio.run(print_sessions(as_json=as_json))


@app.command("close")
@click.argument("name", required=False, help="The session.")
@click.option("--all", "all_", is_flag=True, help="Every session.")
def close(name: str | None, *, all_: bool) -> None:
    """End a session: its variables and files are gone, and no process is left."""
    if (name is None) != all_:
        raise InputError("name one session to close, or give --all")
    asyncio.run(close_sessions(name))


@app.command("put")
@click.argument("session", metavar="NAME", help="The session.")
@click.argument("local", type=Path, help="A file here.")
@click.argument("path", required=False, help="Where it goes, below /workspace.")
@click.option("--unpack", is_flag=True, help="LOCAL is a tar, tar.gz or zip: unpack it at PATH.")
@click.option("--force", is_flag=True, help="Replace what is there.")
def put(session: str, local: Path, path: str | None, *, unpack: bool, force: bool) -> int:
    """Put a file into a session, whole or not at all."""
    files = _files(session)
    if unpack:
        return _finish(transfers.put_archive(files, local, path or ".", replace=force), path or ".")
    return _finish(transfers.put_file(files, local, path or local.name, replace=force), path or local.name)


@app.command("get")
@click.argument("session", metavar="NAME", help="The session.")
@click.argument("path", help="A file of the session.")
@click.argument("local", type=Path, required=False, help="A file or folder here.")
@click.option("--force", is_flag=True, help="Replace what is there.")
def get(session: str, path: str, local: Path | None, *, force: bool) -> int:
    """Take a file out of a session, whole or not at all."""
    target = landing_path(local, path)
    return _finish(transfers.get_file(_files(session), path, target, force=force), str(target))


@app.command("files")
@click.argument("session", metavar="NAME", help="The session.")
@click.argument("path", default=".", help="A folder of the session. Default: all of it.")
@click.option("--recursive", "-r", is_flag=True, help="And everything below it.")
@json_lines
def files(session: str, path: str, *, recursive: bool, as_json: bool) -> None:
    """List files of a session."""
    listing = asyncio.run(_files(session).list(path, recursive=recursive))
    transfers.print_listing(listing, as_json=as_json)


@app.command("archive")
@click.argument("session", metavar="NAME", help="The session.")
@click.argument("path", default=".", help="A folder of the session. Default: all of it.")
@click.option("--output", "-o", type=Path, metavar="FILE", help="The tar file to write. Default: NAME.tar.")
@click.option("--into", type=Path, metavar="FOLDER", help="Unpack it as this new folder instead.")
@click.option("--force", is_flag=True, help="Replace a tar file that is there.")
def archive(session: str, path: str, *, output: Path | None, into: Path | None, force: bool) -> int:
    """Take a folder out of a session as a tar file."""
    if output is not None and into is not None:
        raise InputError("give --output for a tar file or --into for a folder, not both")
    if into is not None:
        if force:
            raise InputError("--force replaces a tar file; --into makes a new folder and replaces nothing")
        return _finish(transfers.get_tree(_files(session), path, into), str(into))
    target = output or Path(f"{checked_name(session)}.tar")
    return _finish(transfers.get_archive(_files(session), path, target, force=force), str(target))


def session_folder() -> SessionFolder:
    """The folder of this user's sessions."""
    return SessionFolder(data_folder(Settings.load(os.environ)))


async def print_sessions(*, as_json: bool) -> None:
    """Print every session that answers; report sessions whose process was killed on stderr."""
    folder = session_folder()
    states: list[State] = []
    for name in folder.names():
        connection = folder.connect(name)
        answer = await ask_host(connection, Status()) if connection is not None else None
        if isinstance(answer, State):
            states.append(answer)
        else:
            why = "; its process was killed" if connection is None else ", but its process is there"
            remark(f"session {name!r} does not answer{why}")
    if as_json:
        for state in states:
            click.echo(msgspec.json.encode({name: getattr(state, name) for name in state.__struct_fields__}).decode())
    else:
        _print_table(states)


def _print_table(states: list[State]) -> None:
    if not states:
        click.echo("no sessions; `moonpool run --session NAME` starts one")
        return
    print_table(
        ("name", "environment", "backend", "servers", "runs", "age", "state", "pid"),
        [
            (
                *(state.name, state.environment, state.backend, state.config or "none", str(state.executions)),
                f"{state.age_s:.0f} s",
                "running" if state.busy else f"idle {state.idle_s:.0f} s",
                str(state.pid),
            )
            for state in states
        ],
    )


async def close_sessions(name: str | None) -> None:
    """End one session, or all; return when their processes are gone."""
    folder = session_folder()
    names = folder.names() if name is None else [checked_name(name)]
    for one in names:
        if not folder.has_socket(one):
            known = ", ".join(folder.names()) or "none"
            raise InputError(f"there is no session {one!r}; known: {known}")
    for one in names:
        how = await _close(folder, one)
        click.echo(f"session {one} {how}")


async def _close(folder: SessionFolder, name: str) -> str:
    connection = folder.connect(name)
    if connection is None:
        folder.remove_socket(name)
        folder.tidy(name)
        return "was dead; its files are removed"
    process = os.pidfd_open(peer_of(connection)[0])  # while we are connected, the pid cannot be reused
    try:
        await ask_host(connection, Close())
        if await _ended(process, _CLOSE_S):
            return "closed"
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        await _ended(process, _CLOSE_S)
        return "did not close in time and was killed"
    finally:
        os.close(process)


async def _ended(process: int, within_s: float) -> bool:
    """Whether the process of a pidfd ends in time."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    loop.add_reader(process, lambda: None if ended.done() else ended.set_result(None))
    try:
        async with asyncio.timeout(within_s):
            await ended
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(process)
    return True


def _files(session: str) -> RemoteFiles:
    folder = session_folder()
    name = checked_name(session)

    def connect() -> socket.socket:
        connection = folder.connect(name)
        if connection is None:
            known = ", ".join(folder.names()) or "none"
            raise InputError(f"there is no session {name!r}; known: {known}; `moonpool run --session NAME` starts one")
        return connection

    return RemoteFiles(connect)


def _finish(transfer: Coroutine[object, object, FileReceipt], target: str) -> int:
    """Run the transfer; a signal cancels it without a trace."""

    async def carry_out() -> FileReceipt:
        Interrupts()
        return await transfer

    try:
        receipt = asyncio.run(carry_out())
    except asyncio.CancelledError:
        remark("interrupted; nothing was kept")
        return EXIT_INTERRUPTED
    click.echo(f"{shown(target)}: {receipt.size:,} bytes, sha256 {receipt.sha256}")
    if receipt.skipped:
        remark(f"{receipt.skipped} entries were left out: links that lead out, pipes, or what cannot be read")
    return EXIT_OK
