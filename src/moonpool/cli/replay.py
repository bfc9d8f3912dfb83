"""`moonpool replay`: an execution again, from the record."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003  typer reads the annotations
from typing import Annotated

import typer


def replay(
    run: Annotated[str, typer.Argument(help="`run_id` of an envelope; `last`: the newest.", metavar="RUN_ID")],
    *,
    policy: Annotated[
        Path | None,
        typer.Option(help="What if this policy file had been in force? Every call is decided again.", metavar="FILE"),
    ] = None,
    code: Annotated[
        Path | None, typer.Option(help="Run this code instead, against the recorded results.", metavar="FILE")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Run an execution again from its recording: same environment, clock and randomness, tool results from the record.

    No server is called and nobody is asked. Exit code 0 when it came out the same, 1 when it did not, 2 when it cannot
    be replayed.
    """
    from moonpool.cli.replay_output import replay_and_print

    sys.exit(replay_and_print(run, policy, code, as_json=json))
