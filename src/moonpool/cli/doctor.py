"""`moonpool doctor`: attack sandboxes on this machine and report what was blocked."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from typing import TYPE_CHECKING, Final

import click
import msgspec

from moonpool.bootstrap import BACKENDS, assemble_backend, data_folder, find_runtimes, open_default_tenant
from moonpool.cli.commands import command
from moonpool.cli.printer import print_json, print_table
from moonpool.core.errors import MoonpoolError
from moonpool.doctor.probes.catalogue import CATALOGUE, QUICK
from moonpool.doctor.remedies import remedies_of
from moonpool.doctor.service import run_doctor
from moonpool.environments.progress import stderr_progress
from moonpool.environments.runtimes import Absence
from moonpool.pipeline.approval import DenyApprover
from moonpool.settings import Settings

if TYPE_CHECKING:
    from moonpool.doctor.diagnosis import DoctorReport

_DETAIL_CHARS_MAX: Final = 60
_ASKED_FOR: Final = "pip<0.0.1"  # no version is: an index that answers has none, and nothing is downloaded


@command
@click.option("--backend", metavar="NAME", help="Sandbox: zygote or bubblewrap.")
@click.option("--env", metavar="NAME", help="Environment: base or data.")
@click.option("--full", is_flag=True, help="Every attack, against every backend unless one is named.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per backend and line.")
def doctor(*, backend: str | None, env: str | None, full: bool, as_json: bool) -> int:
    """Open real sandboxes on this machine and attack them: quickly, or with every attack with --full.

    Exit code 0 when every attack was blocked, 1 when one got through or this machine cannot isolate code.
    """
    reports = examine(backend, env, full=full)
    for report in reports:
        print_report(report, as_json=as_json)
    return 0 if all(report.ok for report in reports) else 1


def examine(backend: str | None, environment: str | None, *, full: bool) -> list[DoctorReport]:
    """Examine one backend: quickly, or with every attack. `full` without a name examines every backend."""
    names = sorted(BACKENDS, reverse=True) if full and backend is None else [backend]
    return [asyncio.run(_examine(name, environment, full=full)) for name in names]


async def _examine(backend: str | None, environment: str | None, *, full: bool) -> DoctorReport:
    settings = Settings.load(os.environ, backend=backend, environment=environment)
    with stderr_progress() as progress:
        async with assemble_backend(settings, environ=os.environ, progress=progress) as (examined, spec, advice):
            found = await find_runtimes(data_folder(settings, os.environ), os.environ)
            there = {one.language: f"{one.version}, {one.program}" for one in found if not isinstance(one, Absence)}
            report = await run_doctor(
                examined,
                spec,
                probes=CATALOGUE if full else QUICK,
                languages={"python": str(spec.image.python), **there},
                absent={one.language: one.reason for one in found if isinstance(one, Absence)},
                advice=advice,
            )
    if not report.ok:
        return report
    told, problem = await packages_report(settings, ask=full)
    return dataclasses.replace(
        report, features={"packages": told}, advice=(*report.advice, *([problem] if problem else []))
    )


async def packages_report(settings: Settings, *, ask: bool) -> tuple[str, str]:
    """Whether sessions may install packages, and what is in the way; to `ask` the index opens a build sandbox."""
    from moonpool.engine.packages.model import PackageConflictError, PackageUnknownError

    if not settings.may_install:
        return "off: no session may install any, unless its application allows it (MOONPOOL_PACKAGES)", ""
    allowed = f"{settings.packages} may be installed"
    if not ask:
        return f"{allowed}; --full asks the index", ""
    asking = msgspec.structs.replace(settings, packages="any")  # the question is about the index, not the list
    try:
        async with open_default_tenant(asking, config=None, approver=DenyApprover(), environ=os.environ) as tenant:
            session = tenant.runtime.session(tenant.caller_grant)
            try:
                await session.install(_ASKED_FOR)
            finally:
                await session.close()
    except (PackageUnknownError, PackageConflictError):
        pass
    except MoonpoolError as error:
        return f"{allowed}, but the index gave no answer", f"packages cannot be installed: {error}"
    return f"{allowed}; a build sandbox reached the index", ""


def print_report(report: DoctorReport, *, as_json: bool) -> None:
    """Print to stdout: what is missing and what got through, then every attack, then advice."""
    if as_json:
        print_json(report.to_json())
        return
    for missing in report.missing:
        click.echo(f"missing: {missing}")
    for advice in report.advice:
        click.echo(f"advice: {advice}")
    for outcome in report.unheld:
        click.echo(f"{outcome.status.words}: {outcome.probe_id} ({outcome.claim}): {outcome.title}: {outcome.detail}")
    if report.outcomes:
        columns = ("probe", "claim", "attack", "outcome", "what it met")
        rows = ((o.probe_id, o.claim, o.title, o.status.words, _clip(o.detail)) for o in report.outcomes)
        print_table(columns, rows, title=f"{report.backend}, environment {report.environment}")
    for language, told in report.languages.items():
        click.echo(f"{language}: {told}")
    for feature, told in report.features.items():
        click.echo(f"{feature}: {told}")
    click.echo(report.summary())
    if report.broken_claims:
        click.echo(f"claims that do not hold on this machine: {', '.join(report.broken_claims)}; do not run code here")
    for remedy in remedies_of(report.missing, report.limits_mode):
        click.echo(f"\n{remedy.why}, write this to {remedy.path}, then: {remedy.to_do}\n\n{remedy.text}")


def _clip(detail: str) -> str:
    return detail if len(detail) <= _DETAIL_CHARS_MAX else detail[: _DETAIL_CHARS_MAX - 1] + "…"
