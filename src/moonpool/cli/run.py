"""`moonpool run`: one piece of code, one JSON line; on a terminal a few lines for a person."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from moonpool.cli.approvers import Approve


def run(  # noqa: PLR0913, PLR0917  one parameter per option
    file: Annotated[
        str | None,
        typer.Argument(help="File with code; `-` reads standard input.", show_default=False, metavar="FILE"),
    ] = None,
    code: Annotated[str | None, typer.Option("-c", "--code", help="Code to run instead of a file.")] = None,
    language: Annotated[
        str | None,
        typer.Option(
            "-l",
            "--language",
            help="python, node, typescript or bash. Default: by the file's name, else python.",
            metavar="NAME",
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            help="Servers (mcpServers JSON). Default: ./moonpool.json, else what `moonpool init` wrote.", metavar="FILE"
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="Rules for tool calls (TOML). Default: MOONPOOL_POLICY, else none.", metavar="FILE"),
    ] = None,
    session: Annotated[
        str | None, typer.Option(help="Keep variables and files under this name between runs.", metavar="NAME")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds of wall clock; waiting for approval is free.", metavar="SECONDS")
    ] = None,
    env: Annotated[str | None, typer.Option(help="Environment: base or data.", metavar="NAME")] = None,
    approve: Annotated[Approve, typer.Option(help="Who answers when policy says ask.")] = Approve.ASK,
    backend: Annotated[str | None, typer.Option(help="Sandbox: zygote or bubblewrap.", metavar="NAME")] = None,
    put: Annotated[
        list[str] | None,
        typer.Option(help="Put a file there before the code runs; repeatable.", metavar="LOCAL[:PATH]"),
    ] = None,
    get: Annotated[
        list[str] | None, typer.Option(help="Take a file out when it has run; repeatable.", metavar="PATH[:LOCAL]")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Let --get replace files.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Make no call that may change something; list them as a plan.")
    ] = False,
    plan_first: Annotated[
        bool, typer.Option("--plan-first", help="Rehearse, ask once about all calls, then run only those.")
    ] = False,
    plan: Annotated[
        str | None, typer.Option(help="Run under this plan of a dry run; only its calls are made.", metavar="PLAN_ID")
    ] = None,
    placeholders: Annotated[
        str | None,
        typer.Option(help="What a rehearsal answers calls with (TOML): `server.tool` = result.", metavar="FILE"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The JSON line on a terminal, too.")] = False,
) -> None:
    """Run Python, Node or Bash in a sealed sandbox. Prints exactly one JSON line; everything else goes to stderr.

    On a terminal, without --json, a few lines for a person stand for it.

    Exit code 0 when the code succeeded, 1 when it did not, 2 when it could not be run at all,
    130 when it was interrupted before it started.
    """
    from moonpool.cli.run_order import RunOrder, answer_in_one_line

    order = RunOrder(
        file=file,
        inline=code,
        language=language,
        config=_path(config),
        policy=_path(policy),
        session=session,
        timeout_s=timeout,
        environment=env,
        backend=backend,
        approve=approve,
        puts=tuple(put or ()),
        gets=tuple(get or ()),
        force=force,
        dry_run=dry_run,
        plan_first=plan_first,
        plan=plan,
        placeholders=_path(placeholders),
        as_json=json,
    )
    sys.exit(answer_in_one_line(order))


def _path(text: str | None) -> Path | None:
    """Not typer's business: see `plain_parameters`."""
    return None if text is None else Path(text)
