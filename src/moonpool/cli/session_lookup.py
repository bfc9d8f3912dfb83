"""Finding sessions' processes, asking them and ending them."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import Final

import msgspec
import typer

from moonpool.cli.config_choice import data_folder
from moonpool.core.errors import InputError
from moonpool.runtime.session_client import ask_host
from moonpool.runtime.session_files import SessionFolder, checked_name, peer_of
from moonpool.runtime.session_wire import Close, State, Status
from moonpool.settings import Settings

_CLOSE_S: Final = 30.0


def session_folder() -> SessionFolder:
    """The folder of this user's sessions."""
    return SessionFolder(data_folder(Settings.load(os.environ)))


async def print_sessions(*, as_json: bool) -> None:
    """Print every session that answers; name those whose process was killed on stderr."""
    folder = session_folder()
    states: list[State] = []
    for name in folder.names():
        connection = folder.connect(name)
        answer = await ask_host(connection, Status()) if connection is not None else None
        if isinstance(answer, State):
            states.append(answer)
        else:
            why = "; its process was killed" if connection is None else ", but its process is there"
            typer.echo(f"moonpool: session {name!r} does not answer{why}", err=True)
    if as_json:
        for state in states:
            typer.echo(msgspec.json.encode({name: getattr(state, name) for name in state.__struct_fields__}).decode())
    else:
        _print_table(states)


def _print_table(states: list[State]) -> None:
    from moonpool.cli.tables import print_table

    if not states:
        typer.echo("no sessions; `moonpool run --session NAME` starts one")
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
        typer.echo(f"session {one} {how}")


async def _close(folder: SessionFolder, name: str) -> str:
    connection = folder.connect(name)
    if connection is None:
        folder.remove_socket(name)
        folder.tidy(name)
        return "was dead; its files are removed"
    process = os.pidfd_open(peer_of(connection)[0])  # while we are connected the pid cannot be another's
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
    """Whether the process behind a pidfd ends in time."""
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
