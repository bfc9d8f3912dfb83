"""`moonpool session list|close`: the sessions that `moonpool run --session` keeps."""

from __future__ import annotations

from typing import Annotated

import typer

from moonpool.cli.command_group import command_group

app = command_group("Sessions that `moonpool run --session NAME` keeps alive.")


@app.command(name="list")
def list_(*, json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False) -> None:
    """List sessions: what they run on, and when they were last used."""
    import asyncio

    from moonpool.cli.session_lookup import print_sessions

    asyncio.run(print_sessions(as_json=json))


@app.command()
def close(
    name: Annotated[str | None, typer.Argument(help="The session.", show_default=False, metavar="[NAME]")] = None,
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
