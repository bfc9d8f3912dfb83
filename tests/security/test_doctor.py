"""The doctor's page and report."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import TYPE_CHECKING, cast

import pytest

from apps import DATA
from moonpool.bootstrap import assemble_backend
from moonpool.cli.doctor import packages_report, print_report
from moonpool.doctor import service
from moonpool.doctor.diagnosis import DoctorReport, ProbeOutcome, ProbeStatus
from moonpool.doctor.probes import credentials
from moonpool.doctor.probes.catalogue import CATALOGUE, QUICK
from moonpool.doctor.probes.folders import FOLDERS
from moonpool.doctor.probes.record import Finding, HostProbe, UnavailableError
from moonpool.doctor.service import run_doctor
from moonpool.redaction.redactor import Redactor
from moonpool.sandboxes import cgroups, seccomp
from moonpool.sandboxes.base import SandboxStartError
from moonpool.sandboxes.fake import FakeBackend
from moonpool.sandboxes.folder_binding import ATTACHING
from moonpool.sandboxes.host_folders import FolderError
from moonpool.settings import Settings
from packages.fake_index import Index
from sandboxes.images import readable_folder
from security import doctor_page
from security.backends import opened
from security.weakening import got_through, probes_named

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.core.errors import MoonpoolError
    from moonpool.doctor.probes.record import Stage
    from moonpool.sandboxes.fake import FakeGuest


def report(*outcomes: ProbeOutcome) -> DoctorReport:
    return DoctorReport(
        backend="zygote",
        environment="base",
        limits_mode="rlimits-only",
        uid=1000,
        languages={"python": "/usr/bin/python3", "node": "install it"},
        missing=(),
        outcomes=outcomes,
        duration_ms=7,
    )


def outcome(status: ProbeStatus, detail: str = "d") -> ProbeOutcome:
    return ProbeOutcome(probe_id="p", claim="C-FS-1", title="t", status=status, detail=detail, duration_ms=1)


def test_the_page_shows_every_attack() -> None:
    assert doctor_page.shown() == doctor_page.table()


def test_the_page_names_every_member_of_the_json() -> None:
    text = doctor_page.PAGE.read_text(encoding="utf-8")
    members = {*report(outcome(ProbeStatus.PASSED)).to_json(), *(f.name for f in dataclasses.fields(ProbeOutcome))}
    assert [name for name in members if f"`{name}`" not in text] == []
    assert [status for status in ProbeStatus if f"`{status}`" not in text] == []


def test_the_quick_examination_aims_at_every_claim_but_what_floods() -> None:
    assert set(QUICK) < set(CATALOGUE)
    assert {probe.claim for probe in QUICK} >= {probe.claim for probe in CATALOGUE} - {"C-CHAN-2", "C-CHAN-4"}


@pytest.mark.parametrize(
    ("status", "ok"),
    [
        (ProbeStatus.PASSED, True),
        (ProbeStatus.ABSENT, True),
        (ProbeStatus.FAILED, False),
        (ProbeStatus.ERROR, False),
    ],
)
def test_what_is_not_held_makes_a_machine_unfit(status: ProbeStatus, ok: bool) -> None:
    assert report(outcome(status)).ok is ok


def test_nothing_tried_is_not_fit() -> None:
    assert not report().ok


def test_a_report_is_one_line_of_json_or_a_table_that_ends_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(report(outcome(ProbeStatus.FAILED, "a hole")), as_json=True)
    assert json.loads(capsys.readouterr().out)["broken_claims"] == ["C-FS-1"]
    print_report(report(outcome(ProbeStatus.FAILED, "a hole")), as_json=False)
    shown = capsys.readouterr().out
    assert "GOT THROUGH: p (C-FS-1): t: a hole" in shown
    assert "node: install it" in shown
    assert "claims that do not hold on this machine: C-FS-1" in shown


def test_table_and_last_line_use_the_same_words(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(report(outcome(ProbeStatus.PASSED), outcome(ProbeStatus.ERROR)), as_json=False)
    shown = capsys.readouterr().out
    assert "zygote: 2 attacks in 0.0 s: 1 blocked, 1 not judged" in shown
    assert "passed" not in shown


def test_a_quick_examination_says_what_it_left_out() -> None:
    quick = dataclasses.replace(report(outcome(ProbeStatus.PASSED)), attacks_left_out=4)
    assert "quick examination, --full plays 4 attacks more" in quick.summary()


def test_a_file_that_helps_comes_last_and_says_against_what(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(report(outcome(ProbeStatus.PASSED)), as_json=False)
    _, _, after = capsys.readouterr().out.partition("in 0.0 s")
    assert "limits hold for each process only (rlimits-only); to bound whole sandboxes, write this to" in after
    assert "commands that you type keep the limits for each process" in after
    assert after.rstrip().endswith("WantedBy=multi-user.target")


def test_what_is_missing_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(dataclasses.replace(report(), missing=("bubblewrap is not installed",)), as_json=False)
    assert capsys.readouterr().out.count("bubblewrap is not installed") == 1


@pytest.mark.anyio
async def test_a_machine_without_control_groups_is_told_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mountinfo", "cgroup"):
        (tmp_path / name).touch()
    monkeypatch.setattr(cgroups, "_PROCESS", tmp_path)
    with readable_folder() as folder:
        settings = Settings.load({"MOONPOOL_DATA_DIR": str(folder)})
        async with assemble_backend(settings, environ={}) as (backend, spec, advice):
            assert backend.limits_mode == "rlimits-only"
    assert [reason.partition(" does not work here: ")[0] for reason in advice] == ["limits=cgroup2", "limits=cgroup1"]
    told = await run_doctor(FakeBackend(_never, missing=("it is not real",)), spec, advice=advice)
    assert told.advice[:2] == tuple(advice)


@pytest.mark.anyio
async def test_a_feature_that_this_machine_does_not_have_is_advice_and_breaks_no_claim() -> None:
    async def play(_: Stage) -> Finding:
        raise UnavailableError("no folder can be attached here: run it as somebody else")

    probe = HostProbe(probe_id="folder-guards", claim="C-FOLD-1", title="t", play=play)
    async with opened("zygote") as (backend, spec):
        found = await run_doctor(backend, spec, probes=[probe], absent={"node": "install it"})
    assert [one.status for one in found.outcomes] == [ProbeStatus.PASSED, ProbeStatus.ABSENT]
    assert found.ok
    assert found.advice[0] == "no folder can be attached here: run it as somebody else"


@pytest.mark.anyio
async def test_only_what_is_about_folders_says_that_none_can_be_attached() -> None:
    found: dict[str, ProbeStatus] = {}
    for error in (
        FolderError("it cannot be mapped"),
        SandboxStartError(step=ATTACHING, reason="Read-only file system"),
        SandboxStartError(step="descriptors", reason="Too many open files"),
        SandboxStartError(step="folder", reason="No space left on device"),  # Moonpool's own
    ):

        class Broken:
            async def open_sandbox(self, error: MoonpoolError = error, **_: object) -> None:
                raise error

        (probe,) = FOLDERS
        assert isinstance(probe, HostProbe)
        played = await service._judged(probe, functools.partial(probe.play, cast("Stage", Broken())))
        found[played.detail] = played.status
    assert list(found.values()) == [ProbeStatus.ABSENT] * 2 + [ProbeStatus.ERROR] * 2


@pytest.mark.anyio
@pytest.mark.slow  # the attacks themselves are in every run, `test_claims`
async def test_attacks_on_folders_and_credentials_notice_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "_folder_checks", list)
    monkeypatch.setattr(credentials.Redactor, "of_values", lambda _: Redactor.of({}, patterns=False))
    seen = await got_through("zygote", probes_named(["folder-guards", "credential-value"]))
    assert "the answer has the credential" in seen["credential-value"]
    assert "a socket of the host: got through" in seen["folder-guards"]


@pytest.mark.anyio
async def test_without_leave_to_install_the_index_is_not_asked() -> None:
    assert (await packages_report(Settings.load({}), ask=True))[0].startswith("off: ")
    told, problem = await packages_report(Settings.load({}, packages="any"), ask=False)
    assert (told, problem) == ("any may be installed; --full asks the index", "")


@pytest.mark.anyio
@pytest.mark.slow  # a build sandbox for each
@pytest.mark.timeout(120)
async def test_a_build_sandbox_asks_the_index_and_what_is_in_the_way_has_a_remedy(tmp_path: Path) -> None:
    index = Index(tmp_path)
    index.add("pip", "1.0")
    with index.served() as (address, requests):
        settings = Settings.load({}, data_dir=DATA, packages="other", package_index=address)
        assert await packages_report(settings, ask=True) == (
            "other may be installed; a build sandbox reached the index",
            "",
        )
        assert requests
    told, problem = await packages_report(settings, ask=True)  # nobody serves it now
    assert told == "other may be installed, but the index gave no answer"
    assert problem.startswith("packages cannot be installed: ")
    assert "check the package index" in problem


async def _never(guest: FakeGuest) -> None:
    raise AssertionError(guest)
