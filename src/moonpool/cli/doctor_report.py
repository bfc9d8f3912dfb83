"""Running the doctor and showing what it found: remedies first, then what got through, then everything."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

import typer

from moonpool.bootstrap import BACKENDS, assemble_backend
from moonpool.environments.progress import stderr_progress
from moonpool.runtime.doctor import ProbeStatus, run_doctor
from moonpool.settings import Settings

if TYPE_CHECKING:
    from moonpool.runtime.doctor import DoctorReport

_MARKS = {
    ProbeStatus.PASSED: "[green]blocked[/]",
    ProbeStatus.FAILED: "[bold red]GOT THROUGH[/]",
    ProbeStatus.ERROR: "[bold yellow]not judged[/]",
}


def examine(backend: str | None, environment: str | None, *, every: bool) -> list[DoctorReport]:
    """Examine one backend, or every one that there is."""
    names = sorted(BACKENDS, reverse=True) if every else [backend]
    return [asyncio.run(_examine(name, environment)) for name in names]


async def _examine(backend: str | None, environment: str | None) -> DoctorReport:
    settings = Settings.load(os.environ, backend=backend, environment=environment)
    with stderr_progress() as progress:
        async with assemble_backend(settings, environ=os.environ, progress=progress) as (examined, spec):
            return await run_doctor(examined, spec)


def print_report(report: DoctorReport, *, as_json: bool) -> None:
    """Print to stdout."""
    if as_json:
        typer.echo(json.dumps(report.to_json()))
        return
    for remedy in report.missing:
        typer.echo(f"missing: {remedy}")
    if report.outcomes:
        _print_table(report)
    typer.echo(report.summary())
    if report.broken_claims:
        typer.echo(f"claims that do not hold on this machine: {', '.join(report.broken_claims)}; do not run code here")


def _print_table(report: DoctorReport) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("probe", "claim", "attack", "outcome", "detail", title=f"{report.backend}, {report.environment}")
    for outcome in sorted(report.outcomes, key=lambda one: one.status is ProbeStatus.PASSED):
        table.add_row(
            escape(outcome.probe_id),
            escape(outcome.claim),
            escape(outcome.title),
            _MARKS[outcome.status],
            escape(outcome.detail),
        )
    Console().print(table)
