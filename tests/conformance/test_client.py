"""The broker passes the official conformance suite as a client, at each revision's own wire."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from conformance.suite import BEYOND, EXPECTED, REVISIONS, Verdict, chosen, required_scenarios, run_scenario, tell
from run_folder import made_once

AT_ONCE = 4
REQUIRED = [(revision, scenario) for revision in REVISIONS for scenario in required_scenarios(revision)]
CASES = [(revision, scenario) for revision, scenario in [*REQUIRED, *BEYOND] if chosen(revision)]

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(400), pytest.mark.slow]


@pytest.fixture(scope="module")
async def verdicts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Verdict]:
    """The verdict on every scenario that was selected, a few at a time: each waits most of its time. Once in a run."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def judge(revision: str, scenario: str) -> tuple[tuple[str, str], Verdict]:
        async with turn:
            scratch = tmp_path_factory.mktemp("suite")
            return (revision, scenario), await run_scenario(scenario, revision, scratch)

    own = [item for item in request.session.items if item.path == request.path and isinstance(item, pytest.Function)]
    wanted = {
        (item.callspec.params["revision"], item.callspec.params["scenario"])
        for item in own
        if hasattr(item, "callspec")
    }
    with made_once("conformance-client.json") as place:
        if not place.exists():
            found = await asyncio.gather(*(judge(*case) for case in sorted(wanted)))
            tell(summary(dict(found)))
            place.write_bytes(msgspec.json.encode(found))
        return dict(msgspec.json.decode(place.read_bytes(), type=list[tuple[tuple[str, str], Verdict]]))


def summary(found: dict[tuple[str, str], Verdict]) -> str:
    """The suite judges one scenario at a time: its verdicts together."""
    lines = [f"{'✓' if one.passed else '✗'} client {revision} {scenario}: {one.checks} checks"
             for (revision, scenario), one in found.items()]  # fmt: skip
    return "\n".join([*lines, f"Total: {sum(one.passed for one in found.values())} of {len(found)} scenarios passed"])


@pytest.mark.req("E-002", "L-018", "L-023", "L-025", "L-026", "L-033", "B-056")
@pytest.mark.parametrize(("revision", "scenario"), CASES)
async def test_the_suite_is_satisfied(verdicts: dict[tuple[str, str], Verdict], revision: str, scenario: str) -> None:
    verdict = verdicts[revision, scenario]
    if scenario in EXPECTED:
        assert not verdict.passed, f"{scenario} passes now; take it out of expected_failures.toml"
        pytest.xfail(EXPECTED[scenario])
    assert verdict.passed, verdict.report
    assert verdict.checks > 0


def test_only_required_scenarios_are_expected_to_fail() -> None:
    assert set(EXPECTED) <= {scenario for _, scenario in REQUIRED}


def test_the_lists_of_the_suite_are_whole() -> None:
    counts = {revision: len(required_scenarios(revision)) for revision in REVISIONS}
    assert counts == {"2025-11-25": 18, "2026-07-28": 32, "2025-03-26": 2}
