"""`moonpool tools drift|accept`: what servers changed since it was accepted, and accepting it.

SECURITY: an acceptance refers to what was shown, by digest: printed by `drift`, or shown here to a person who answers.
What servers wrote is printed without control characters.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import typer

from moonpool.bootstrap import assemble_tools
from moonpool.cli.config_choice import read_config
from moonpool.cli.tables import printable
from moonpool.core.acceptance import shown_digest
from moonpool.core.drift import Severity
from moonpool.core.errors import ConfigError, InputError
from moonpool.runtime.drift import choose
from moonpool.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence
    from pathlib import Path

    from moonpool.core.drift import ToolDiff
    from moonpool.core.json import JsonObject
    from moonpool.runtime.tools import Toolbox

_LINE_CHARS_MAX = 400


def print_changes(config: Path | None, *, refresh: bool, as_json: bool) -> None:
    """Print every open change and how it is accepted; nothing when there is none."""
    asyncio.run(_print_changes(config, refresh=refresh, as_json=as_json))


def accept_changes(config: Path | None, name: str, digest: str | None) -> int:
    """Accept what NAME means; 1 when a person was asked and said no."""
    return asyncio.run(_accept(config, name, digest))


@asynccontextmanager
async def _toolbox(config: Path | None) -> AsyncGenerator[Toolbox]:
    servers = read_config(config)
    if servers is None:
        raise ConfigError("no servers are configured; pass --config FILE or run `moonpool init`")
    async with assemble_tools(Settings.load(os.environ), config=servers, environ=os.environ) as toolbox:
        yield toolbox


async def _print_changes(config: Path | None, *, refresh: bool, as_json: bool) -> None:
    async with _toolbox(config) as toolbox:
        snapshot = await (toolbox.refresh() if refresh else toolbox.snapshot())
    for problem in snapshot.problems.values():
        sys.stderr.write(f"moonpool: {problem}; its tools cannot be compared\n")
    if as_json:
        for diff in snapshot.changes:
            typer.echo(json.dumps(_members(diff, held=(diff.server_id, diff.tool_name) in snapshot.manifest.held)))
        return
    for diff in snapshot.changes:
        _say(_lines(diff))
        typer.echo(f"  accept it: {accept_command(_name(diff), [diff])}")
    for server_id in dict.fromkeys(diff.server_id for diff in snapshot.changes):
        of_server = [diff for diff in snapshot.changes if diff.server_id == server_id]
        if len(of_server) > 1:
            name = printable(server_id)
            typer.echo(f"accept all of {name}: {accept_command(name, of_server)}")
    if not snapshot.changes:
        sys.stderr.write("moonpool: no tool has an open change\n")


async def _accept(config: Path | None, name: str, digest: str | None) -> int:
    async with _toolbox(config) as toolbox:
        snapshot = await toolbox.snapshot()
        diffs = choose(snapshot.changes, name, toolbox.server_ids)
        if digest is None:
            if not sys.stdin.isatty():
                raise InputError("--digest is missing: it says what you saw; `moonpool tools drift` prints it")
            for diff in diffs:
                _say(_lines(diff))
            if not await asyncio.to_thread(typer.confirm, f"Accept {len(diffs)} changed tool(s)?", err=True):
                return 1
            digest = shown_digest(diffs)
        accepted = await toolbox.accept(name, digest)
    for diff in accepted:
        typer.echo(f"accepted {_name(diff)}")
    return 0


def _lines(diff: ToolDiff) -> Iterable[str]:
    yield _name(diff)
    for change in diff.changes:
        mark = "!" if change.severity is Severity.DANGEROUS else " "
        yield f"{mark} {change.kind}: {change.reason}"


def _members(diff: ToolDiff, *, held: bool) -> JsonObject:
    return {
        "server": diff.server_id,
        "tool": diff.tool_name,
        "paused": held,
        "before": diff.before_digest,
        "after": diff.after_digest,
        "digest": shown_digest([diff]),
        "changes": [change.to_json() for change in diff.changes],
    }


def accept_command(name: str, diffs: Sequence[ToolDiff]) -> str:
    """SECURITY: the server chose the name, and somebody will put the command into a shell."""
    return f"moonpool tools accept {shlex.quote(name)} --digest {_short(diffs)}"


def _name(diff: ToolDiff) -> str:
    return printable(f"{diff.server_id}.{diff.tool_name}")


def _short(diffs: Sequence[ToolDiff]) -> str:
    return shown_digest(diffs).removeprefix("sha256:")[:32]


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(printable(line[:_LINE_CHARS_MAX]))
