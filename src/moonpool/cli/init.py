"""`moonpool init`: take over the servers that a client's own configuration already has."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003  typer reads the annotations
from typing import Annotated

import typer


def init(
    *,
    from_: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Read this file instead of looking for some; repeatable.", metavar="FILE"),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(help="Write here. Default: $XDG_CONFIG_HOME/moonpool/servers.json.", metavar="FILE")
    ] = None,
    add: Annotated[
        bool, typer.Option("--add", help="Add missing servers to an existing file; change nothing in it.")
    ] = False,
    data: Annotated[
        bool | None,
        typer.Option("--data/--no-data", help="Build the environment `data`, too. Default: ask at a terminal."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done.")] = False,
) -> None:
    """Import servers from the configurations of Claude Desktop, Claude Code, VS Code and Cursor.

    Entries are copied as they stand; ${VAR} stays ${VAR}. An existing file is never overwritten.
    """
    from moonpool.cli.server_import import import_servers

    status = import_servers(from_, to, add=add, dry_run=dry_run)
    if status == 0 and not dry_run and data is not False:
        from moonpool.cli.environment_builds import offer_data

        offer_data(wanted=data)
    sys.exit(status)
