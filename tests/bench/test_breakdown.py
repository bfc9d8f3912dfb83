"""The stopwatch counts own time, and puts everything back; every step is a function that is there."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

import anyio.lowlevel
import pytest
from bench.breakdown import main
from bench.breakdowns import changes, execution, toolcall
from bench.breakdowns.stopwatch import Spot, moments, own_times

from tables import every_row

if TYPE_CHECKING:
    from collections.abc import Iterator

SPOTS = [spot for spots in toolcall.STEPS.values() for spot in spots] + [spot for spot, _ in execution.SPOTS.values()]


@every_row("spot", SPOTS, ids=lambda spot: spot.path.rpartition(".")[2])
def test_every_step_is_a_function_of_the_product(spot: Spot) -> None:
    owner, name = spot.owner()

    assert callable(getattr(owner, name))


@pytest.fixture
def made() -> Iterator[Any]:
    """A module with an outer function that waits and an inner one that it calls."""
    module: Any = types.ModuleType("made_for_the_stopwatch")

    class Pipeline:
        async def outer(self) -> str:
            await anyio.lowlevel.checkpoint()
            return module.inner()

    module.Pipeline, module.inner = Pipeline, lambda: "answer"
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


@pytest.mark.anyio
async def test_what_was_called_inside_is_not_counted_twice(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 4.0, 10.0])  # outer begins, inner begins, inner ends, outer ends
    monkeypatch.setattr("bench.breakdowns.stopwatch.time.perf_counter", lambda: next(clock))
    steps = {"outer": (Spot(f"{made.__name__}:Pipeline.outer"),), "inner": (Spot(f"{made.__name__}:inner"),)}

    with own_times(steps) as times:
        assert await made.Pipeline().outer() == "answer"

    assert times.take() == {"inner": 3.0, "outer": 7.0}
    assert times.take() == {}


@pytest.mark.anyio
async def test_moments_are_noted_and_functions_put_back(made: Any) -> None:
    before = made.Pipeline.outer, made.inner
    spots = {"in": (Spot(f"{made.__name__}:inner"), "enter"), "out": (Spot(f"{made.__name__}:Pipeline.outer"), "leave")}

    with moments(spots) as seen:
        await made.Pipeline().outer()

    assert list(seen) == ["in", "out"]
    assert seen["in"] <= seen["out"]
    assert (made.Pipeline.outer, made.inner) == before


def test_a_step_that_is_gone_is_an_error_that_names_it(made: Any) -> None:
    with (
        pytest.raises(LookupError, match=r"Pipeline\.gone is not there any more"),
        own_times({"gone": (Spot(f"{made.__name__}:Pipeline.gone"),)}),
    ):
        pytest.fail("it was timed")


@pytest.mark.timeout(180)
@pytest.mark.slow
def test_the_tables_name_every_step(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--rounds", "1", "--env", "base", "--no-peers"]) == 0

    printed = capfd.readouterr().out
    assert all(f"| {step} |" in printed for step in toolcall.STEPS)
    assert all(f"**{total}**" in printed for total in (toolcall.TOTAL, execution.TOTAL))
    assert all(f"| {total} |" in printed for total in (changes.TOTAL, changes.ASKED))
    assert "| changed tool list | list_changed | listen | refresh |" in printed
    assert "| tool call, in the same run | direct | read_only | writing |" in printed
