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
    trust: Annotated[
        list[str] | None,
        typer.Option(help="Believe this server's read-only annotations; repeatable, '*': all.", metavar="SERVER"),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(help="Allow every tool that this server has now; repeatable, '*': all.", metavar="SERVER"),
    ] = None,
    data: Annotated[
        bool | None,
        typer.Option("--data/--no-data", help="Build the environment `data`, too. Default: ask at a terminal."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done.")] = False,
) -> None:
    """Import servers from the configurations of Claude Desktop, Claude Code, VS Code and Cursor.

    Entries are copied without what they give themselves (leave, trust); ${VAR} stays ${VAR}. An existing file is never
    overwritten. At a terminal you are shown what each server's tools are and asked which of them code may call without
    a question.
    """
    from moonpool.cli.init_leave import Wanted, settle_leave
    from moonpool.cli.server_import import import_servers

    wanted = Wanted(trust=trust or (), allow=allow or ())
    written = import_servers(from_, to, add=add, dry_run=dry_run, check=wanted.check)
    if written.path is not None:
        settle_leave(written.path, written.server_ids, wanted)
        written.say_next()
    if written.exit_code == 0 and not dry_run and data is not False:
        from moonpool.cli.environment_builds import offer_data

        offer_data(wanted=data)
    sys.exit(written.exit_code)
