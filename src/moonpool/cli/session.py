"""`moonpool session list|close|put|get|files|archive`: the sessions that `moonpool run --session` keeps."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003  typer reads the annotations
from typing import Annotated

import typer

from moonpool.cli.command_group import command_group

_NAME = typer.Argument(help="The session.", show_default=False, metavar="NAME")
_FOLDER = typer.Argument(help="A folder of the session.", metavar="PATH")
_FORCE = typer.Option("--force", help="Replace what is there.")

app = command_group("Sessions that `moonpool run --session NAME` keeps alive.")


@app.command(name="list")
def list_(*, json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False) -> None:
    """List sessions: what they run on, and when they were last used."""
    import asyncio

    from moonpool.cli.session_lookup import print_sessions

    asyncio.run(print_sessions(as_json=json))


@app.command()
def close(
    name: Annotated[str | None, typer.Argument(help="The session.", show_default=False, metavar="NAME")] = None,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Every session.")] = False,
) -> None:
    """End a session: its variables and files are gone, and no process is left."""
    import asyncio

    from moonpool.cli.session_lookup import close_sessions
    from moonpool.core.errors import InputError

    if (name is None) != all_:
        raise InputError("name one session to close, or give --all")
    asyncio.run(close_sessions(name))


@app.command()
def put(
    name: Annotated[str, _NAME],
    local: Annotated[Path, typer.Argument(help="A file here.", show_default=False, metavar="LOCAL")],
    path: Annotated[
        str | None, typer.Argument(help="Where it goes, below /workspace.", show_default=False, metavar="PATH")
    ] = None,
    *,
    unpack: Annotated[bool, typer.Option("--unpack", help="LOCAL is a tar, tar.gz or zip: unpack it at PATH.")] = False,
    force: Annotated[bool, _FORCE] = False,
) -> None:
    """Put a file into a session, whole or not at all."""
    from moonpool.cli import session_transfer

    sys.exit(session_transfer.put(name, local, path, unpack=unpack, force=force))


@app.command()
def get(
    name: Annotated[str, _NAME],
    path: Annotated[str, typer.Argument(help="A file of the session.", show_default=False, metavar="PATH")],
    local: Annotated[
        Path | None, typer.Argument(help="A file or folder here.", show_default=False, metavar="LOCAL")
    ] = None,
    *,
    force: Annotated[bool, _FORCE] = False,
) -> None:
    """Take a file out of a session, whole or not at all."""
    from moonpool.cli import session_transfer

    sys.exit(session_transfer.get(name, path, local, force=force))


@app.command()
def files(
    name: Annotated[str, _NAME],
    path: Annotated[str, _FOLDER] = ".",
    *,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="And everything below it.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """List files of a session."""
    from moonpool.cli import session_transfer

    session_transfer.list_files(name, path, recursive=recursive, as_json=json)


@app.command()
def archive(
    name: Annotated[str, _NAME],
    path: Annotated[str, _FOLDER] = ".",
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The tar file to write. Default: NAME.tar.", metavar="FILE")
    ] = None,
    into: Annotated[Path | None, typer.Option(help="Unpack it as this new folder instead.", metavar="FOLDER")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a tar file that is there.")] = False,
) -> None:
    """Take a folder out of a session as a tar file."""
    from moonpool.cli import session_transfer

    sys.exit(session_transfer.archive(name, path, output, into, force=force))
