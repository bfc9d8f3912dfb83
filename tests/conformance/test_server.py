"""The profile `direct` passes the official conformance suite as a server, at each revision's own wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.server_suite import RUNS, run_suite
from conformance.suite import chosen, required_scenarios, tell

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(400), pytest.mark.slow]


@pytest.mark.req("A-020", "A-045", "C-001")
@pytest.mark.parametrize(("revision", "era"), [run for run in RUNS if chosen(run[0])])
async def test_the_suite_is_satisfied(revision: str, era: str, tmp_path: Path) -> None:
    """All that the revision requires, at its wire, in front of a server of this era. Nothing is expected to fail."""
    report = await run_suite(revision, era, tmp_path)
    tell(f"server {revision}, in front of a {era} server\n{report.summary}\n")
    required = required_scenarios(revision, "server")
    failed = {name: report.verdicts[name].report for name in required if not report.verdicts[name].passed}
    assert (failed, report.exit_code) == ({}, 0), report.summary


def test_the_lists_of_the_suite_are_whole() -> None:
    assert [len(required_scenarios(revision, "server")) for revision in ("2025-11-25", "2026-07-28")] == [30, 37]
