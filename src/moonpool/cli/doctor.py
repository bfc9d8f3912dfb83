"""`moonpool doctor`: attack sandboxes on this machine and say what held."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def doctor(
    *,
    backend: Annotated[str | None, typer.Option(help="Sandbox: zygote or bubblewrap.", metavar="NAME")] = None,
    env: Annotated[str | None, typer.Option(help="Environment: base or data.", metavar="NAME")] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Every attack, against every backend unless one is named.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per backend and line.")] = False,
) -> None:
    """Open real sandboxes on this machine and attack them: quickly, or by everything with --full.

    Exit code 0 when every attack was blocked, 1 when one got through or this machine cannot isolate code.
    """
    from moonpool.cli.doctor_report import examine, print_report

    reports = examine(backend, env, full=full)
    for report in reports:
        print_report(report, as_json=json)
    sys.exit(0 if all(report.ok for report in reports) else 1)
