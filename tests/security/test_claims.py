"""Every claim of the threat model, attacked in real sandboxes of both backends."""

from __future__ import annotations

from collections import Counter

import anyio
import pytest

from moonpool.runtime.doctor import DoctorReport, ProbeStatus, run_doctor
from moonpool.runtime.probes.catalogue import CATALOGUE
from security.backends import BACKENDS, opened
from security.claims import read_claims

CLAIMS = read_claims()


async def _examined(name: str) -> DoctorReport:
    async with opened(name) as (backend, spec):
        with anyio.fail_after(60):
            return await run_doctor(backend, spec)


@pytest.fixture(scope="module", params=sorted(BACKENDS))
def report(request: pytest.FixtureRequest) -> DoctorReport:
    """One examination of each backend; every probe below reads its own line."""
    return anyio.run(_examined, request.param)


@pytest.mark.parametrize(
    "probe_id", [pytest.param(probe.probe_id, marks=pytest.mark.claim(probe.claim)) for probe in CATALOGUE]
)
def test_attack_is_blocked(report: DoctorReport, probe_id: str) -> None:
    outcome = next(outcome for outcome in report.outcomes if outcome.probe_id == probe_id)
    assert outcome.status is ProbeStatus.PASSED, outcome.detail


def test_healthy_backend_is_reported_fit(report: DoctorReport) -> None:
    assert (report.ok, report.missing, report.broken_claims) == (True, (), ())


def test_every_claim_is_attacked_and_every_attack_names_a_claim() -> None:
    assert {probe.claim for probe in CATALOGUE} == set(CLAIMS)


def test_no_two_probes_share_an_id() -> None:
    assert [name for name, count in Counter(probe.probe_id for probe in CATALOGUE).items() if count > 1] == []


def test_doctor_plays_more_than_the_required_number_of_probes() -> None:
    assert len(CATALOGUE) >= 45
