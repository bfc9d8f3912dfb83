"""`moonpool session list|close|put|get|files|archive`: manage the sessions of `moonpool run --session`."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec

from moonpool.cli import transfers
from moonpool.cli.commands import command_group, json_lines
from moonpool.cli.exit_codes import EXIT_INTERRUPTED, EXIT_OK
from moonpool.cli.interrupts import Interrupts
from moonpool.cli.printer import print_table, remark
from moonpool.cli.service_start import ServiceVersionError, SessionLostError, ended, is_gone, local_service
from moonpool.cli.sessions_here import checked_name, named_sessions
from moonpool.core.errors import InputError, MoonpoolError
from moonpool.engine.files.errors import shown
from moonpool.engine.files.local_files import landing_path
from moonpool.sdk.remote.files import RemoteFiles
from moonpool.settings import Settings
from moonpool.store.service_socket import ENDING_S

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.engine.files.service import FileReceipt
    from moonpool.server.http.sessions.messages import SessionAnswer

_T = TypeVar("_T")

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
    if unpack:
        folder = path or "."
        return _finish(session, lambda files: transfers.put_archive(files, local, folder, replace=force), folder)
    target = path or local.name
    return _finish(session, lambda files: transfers.put_file(files, local, target, replace=force), target)


@app.command("get")
@click.argument("session", metavar="NAME", help="The session.")
@click.argument("path", help="A file of the session.")
@click.argument("local", type=Path, required=False, help="A file or folder here.")
@click.option("--force", is_flag=True, help="Replace what is there.")
def get(session: str, path: str, local: Path | None, *, force: bool) -> int:
    """Take a file out of a session, whole or not at all."""
    target = landing_path(local, path)
    return _finish(session, lambda files: transfers.get_file(files, path, target, force=force), str(target))


@app.command("files")
@click.argument("session", metavar="NAME", help="The session.")
@click.argument("path", default=".", help="A folder of the session. Default: all of it.")
@click.option("--recursive", "-r", is_flag=True, help="And everything below it.")
@json_lines
def files(session: str, path: str, *, recursive: bool, as_json: bool) -> None:
    """List files of a session."""
    listing = asyncio.run(_with_files(session, lambda files: files.list(path, recursive=recursive)))
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
        return _finish(session, lambda files: transfers.get_tree(files, path, into), str(into))
    target = output or Path(f"{checked_name(session)}.tar")
    return _finish(session, lambda files: transfers.get_archive(files, path, target, force=force), str(target))


async def print_sessions(*, as_json: bool) -> None:
    """Print every session of this user's service; say so where it was killed."""
    async with local_service(Settings.load(os.environ)) as service:
        sessions = await service.asked(named_sessions, None)
        if sessions is None and service.folder.has_socket:
            remark("the service was killed, and its sessions are gone")
        process = service.folder.process() if sessions else None
    states = [_State.of(one, process.pid if process else 0) for one in sessions or ()]
    if as_json:
        for state in states:
            click.echo(msgspec.json.encode(state).decode())
    else:
        _print_table(states)


class _State(msgspec.Struct, frozen=True, kw_only=True):
    """A session as `moonpool session list --json` prints it. Times are seconds."""

    name: str
    pid: int  # of the service
    environment: str
    backend: str
    config: str
    age_s: float
    idle_s: float
    executions: int
    busy: bool

    @classmethod
    def of(cls, session: SessionAnswer, process: int) -> _State:
        kept = session.terminal
        return cls(
            name=session.name,
            pid=process,
            environment=session.environment,
            backend="" if kept is None else kept.backend,
            config="" if kept is None else kept.config,
            age_s=session.age_s,
            idle_s=session.unused_s,
            executions=session.usage.executions,
            busy=session.unused_s == 0,
        )


def _print_table(states: list[_State]) -> None:
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
    """End one session, or all; return when they are gone, and the service too if it has no more."""
    if name is not None:
        checked_name(name)
    async with local_service(Settings.load(os.environ)) as service:
        process = service.folder.process()
        try:
            sessions = await service.asked(named_sessions, None) or []
            if name is not None and name not in {one.name for one in sessions}:
                raise _unknown(name, sessions)
            for session in sessions:
                if name in {None, session.name}:
                    await service.connection.order("DELETE", f"sessions/{session.id}", None, type(None))
                    click.echo(f"session {session.name} closed")
        except ServiceVersionError:
            if name is not None or process is None or not service.ends_unused:
                raise
            signal.pidfd_send_signal(process.descriptor, signal.SIGTERM)
            sessions = []
        if process is not None and service.ends_unused and len(sessions) <= (1 if name else len(sessions)):
            await service.connection.close()
            if not await ended(process.descriptor, ENDING_S):
                remark("the service has not ended yet; it ends when nobody uses it")


def _unknown(name: str, sessions: list[SessionAnswer]) -> InputError:
    known = ", ".join(one.name for one in sessions) or "none"
    return InputError(f"there is no session {name!r}; known: {known}; `moonpool run --session NAME` starts one")


async def _with_files(session: str, work: Callable[[RemoteFiles], Awaitable[_T]]) -> _T:
    name = checked_name(session)
    async with local_service(Settings.load(os.environ)) as service:
        sessions = await service.asked(named_sessions, None) or []
        found = next((one for one in sessions if one.name == name), None)
        if found is None:
            raise _unknown(name, sessions)
        try:
            return await work(RemoteFiles(service.connection, f"sessions/{found.id}"))
        except MoonpoolError as error:
            if not is_gone(error):
                raise
            raise SessionLostError(
                "the service ended during the transfer, and the session with it; nothing was kept, try again"
            ) from None


def _finish(session: str, transfer: Callable[[RemoteFiles], Awaitable[FileReceipt]], target: str) -> int:
    """Run the transfer; a signal cancels it without a trace."""

    async def carry_out() -> FileReceipt:
        Interrupts()
        return await _with_files(session, transfer)

    try:
        receipt = asyncio.run(carry_out())
    except asyncio.CancelledError:
        remark("interrupted; nothing was kept")
        return EXIT_INTERRUPTED
    click.echo(f"{shown(target)}: {receipt.size:,} bytes, sha256 {receipt.sha256}")
    if receipt.skipped:
        remark(f"{receipt.skipped} entries were left out: links that lead out, pipes, or what cannot be read")
    return EXIT_OK
