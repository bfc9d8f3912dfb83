"""A soak sees what is lost and what is swapped; soak and fuzz run as commands; their programs come from the seed."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from bench.soaks.kinds import Wanted, choose, faults
from bench.soaks.marathon import SoakOutcome
from bench.soaks.programs import programs

from bench import fuzz, soak
from moonpool.core.envelope import Envelope, ExecutionError

WANTED = Wanted(kind="output", nonce="nonce-00000000000000aa", code="", stdout="out nonce-00000000000000aa\n", data=1)
RIGHT = Envelope(
    run_id="run",
    trace_id="trace",
    tool_name="moonpool.python",
    tool_version="1",
    input_digest="",
    sandbox_image="",
    duration_ms=1,
    data=1,
    metrics={"tool_calls": 0},
    extras={"stdout": WANTED.stdout, "stderr": f"err {WANTED.nonce}\n", "exit_code": 0},
)
OTHER = "nonce-00000000000000bb"


def with_extras(**extras: object) -> Envelope:
    return replace(RIGHT, extras={**RIGHT.extras, **extras})  # pyright: ignore[reportArgumentType]


def test_an_envelope_that_is_right_has_no_faults() -> None:
    found = faults(WANTED, RIGHT)

    assert (found.lost, found.swapped) == ([], [])


@pytest.mark.parametrize(
    ("envelope", "is_swap"),
    [
        pytest.param(with_extras(stdout=""), False, id="stdout is lost"),
        pytest.param(with_extras(stderr=""), False, id="stderr is lost"),
        pytest.param(with_extras(stdout=WANTED.stdout + "more"), False, id="something was added"),
        pytest.param(with_extras(exit_code=1), False, id="another exit code"),
        pytest.param(replace(RIGHT, data=None), False, id="the result is lost"),
        pytest.param(replace(RIGHT, metrics={"tool_calls": 1}), False, id="a call too many"),
        pytest.param(replace(RIGHT, error=ExecutionError(type="E", message="")), False, id="an error of nobody's"),
        pytest.param(with_extras(stdout=f"out {OTHER}\n"), True, id="somebody else's stdout"),
        pytest.param(replace(RIGHT, data=OTHER), True, id="somebody else's result"),
        pytest.param(replace(RIGHT, error=ExecutionError(type="E", message=OTHER)), True, id="somebody else's error"),
    ],
)
def test_every_difference_is_a_fault(envelope: Envelope, *, is_swap: bool) -> None:
    found = faults(WANTED, envelope)

    assert found.lost
    assert bool(found.swapped) is is_swap


def test_what_is_not_there_is_not_chosen() -> None:
    chance = random.Random(1)  # noqa: S311
    kinds = {choose(chance, having=()).kind for _ in range(500)}

    assert kinds.isdisjoint({"plot", "node", "bash"})
    assert {"plot", "node", "bash"} <= {choose(chance, having={"data", "node", "bash"}).kind for _ in range(500)}


def test_growth_is_that_of_the_second_half() -> None:
    early = [(done, 50.0 + done) for done in range(10)]
    outcome = SoakOutcome(resident_mb=[*early, *((done, 100.0 + done / 2) for done in range(10, 20))])

    assert outcome.growth_mb == pytest.approx(4.5)


def test_programs_are_the_same_for_the_same_seed_and_can_all_be_sent() -> None:
    made = programs(seed=7, count=2000)

    assert made == programs(seed=7, count=2000)
    assert made != programs(seed=8, count=2000)
    assert all(text.strip() and "\0" not in text for text in made)


@pytest.mark.timeout(180)
@pytest.mark.slow
def test_the_soak_runs_as_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert soak.main(["--executions", "12", "--concurrency", "3", "--env", "base", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert (found["executions"], found["lost"], found["processes_left"]) == (12, 0, 0)
    assert sum(found["kinds"].values()) == 12


@pytest.mark.timeout(180)
def test_the_fuzz_runs_as_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["--programs", "12", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert (found["programs"], found["fault_count"]) == (12, 0)
