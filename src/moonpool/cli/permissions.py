"""`moonpool allow` and `moonpool deny`: what code may call without a question, written into the server's entry."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003  typer reads the annotations
from typing import Annotated

import typer

_TOOLS = typer.Argument(help="server.tool, or server.glob in quotes ('git.git_*'); several at once.", metavar="TOOL")
_WHEN = typer.Option(
    help="Only with such arguments: POINTER=GLOB, e.g. /repo=acme/*, or a policy condition as JSON; all must hold.",
    metavar="CONDITION",
)
_CONFIG = typer.Option(
    help="Change this configuration. Default: ./moonpool.json, else what `init` wrote.", metavar="FILE"
)


def allow(
    tools: Annotated[list[str], _TOOLS],
    *,
    when: Annotated[list[str] | None, _WHEN] = None,
    reads: Annotated[
        bool, typer.Option("--reads", help="Give servers instead of tools: believe their read-only annotations.")
    ] = False,
    config: Annotated[Path | None, _CONFIG] = None,
) -> None:
    """Let code call these tools without a question. Takes back what `deny` said about them."""
    from moonpool.cli.permission_changes import change_leave, trust_reads

    sys.exit(trust_reads(tools, config) if reads else change_leave("allow", tools, when or [], config))


def deny(
    tools: Annotated[list[str], _TOOLS],
    *,
    when: Annotated[list[str] | None, _WHEN] = None,
    config: Annotated[Path | None, _CONFIG] = None,
) -> None:
    """Let code never call these tools, whoever would say yes. Takes back what `allow` said about them."""
    from moonpool.cli.permission_changes import change_leave

    sys.exit(change_leave("deny", tools, when or [], config))
