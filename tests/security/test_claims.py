"""Every claim of the threat model, attacked in real sandboxes: each backend, with and without control groups."""

from __future__ import annotations

from collections import Counter

import anyio
import pytest

from moonpool.doctor.diagnosis import ProbeStatus
from moonpool.doctor.probes.catalogue import CATALOGUE
from moonpool.doctor.service import run_doctor
from security.backends import BACKENDS, MODES, opened
from security.claims import read_claims
from security.evidence import attacks_by_claim

CLAIMS = read_claims()
MATRIX = [(name, mode) for name in sorted(BACKENDS) for mode in MODES]
EXAMINED = [
    pytest.param(name, mode, quick, id=f"{name} {mode} {'quick' if quick else 'full'}", marks=marks)
    for name, mode in MATRIX
    for quick, marks in ((True, ()), (False, pytest.mark.slow))
    if not quick or (name, mode) == ("zygote", MODES[0])
]
"""The default with the quick attacks; both backends, with control groups and without, with all."""


@pytest.mark.anyio
@pytest.mark.req("F-020", "F-021")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "mode", "quick"), EXAMINED)
async def test_every_attack_is_blocked(name: str, mode: str, quick: bool) -> None:
    """One test for all: a sandbox backend is examined as the doctor does it, several attacks at a time."""
    probes = [probe for probe in CATALOGUE if probe.quick or not quick]
    async with opened(name, limits=mode) as (backend, spec):
        with anyio.fail_after(280):
            report = await run_doctor(backend, spec, probes=probes)
    held = {outcome.probe_id for outcome in report.outcomes if outcome.status is ProbeStatus.PASSED}
    assert {o.probe_id: o.detail for o in report.outcomes if o.probe_id not in held} == {}
    assert held == {"open", *(probe.probe_id for probe in probes)}
    assert (report.ok, report.missing, report.broken_claims) == (True, (), ())


@pytest.mark.anyio
async def test_attacks_of_a_language_that_is_absent_are_not_played_and_break_no_claim() -> None:
    probes = [probe for probe in CATALOGUE if probe.probe_id in {"bash-identity", "fs-host-files"}]
    async with opened("zygote") as (backend, spec):
        with anyio.fail_after(30):
            found = await run_doctor(backend, spec, probes=probes, absent={"bash": "install bash"})
    told = {outcome.probe_id: (outcome.status, outcome.detail) for outcome in found.outcomes}
    assert told["bash-identity"] == (ProbeStatus.ABSENT, "install bash")
    assert told["fs-host-files"][0] is ProbeStatus.PASSED
    assert (found.ok, found.languages) == (True, {"bash": "install bash"})


def test_every_claim_is_attacked_and_every_attack_names_a_claim() -> None:
    assert set(attacks_by_claim()) == set(CLAIMS)


def test_no_two_probes_share_an_id() -> None:
    assert [name for name, count in Counter(probe.probe_id for probe in CATALOGUE).items() if count > 1] == []


def test_the_quick_examination_attacks_in_every_language() -> None:
    assert {probe.language for probe in CATALOGUE if probe.quick} == {"python", "node", "bash"}
