from __future__ import annotations

import pytest
from bench.sampling import Case, median, percentile, take_turns


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        pytest.param(0.5, 50, id="half"),
        pytest.param(0.95, 95, id="19 of 20"),
        pytest.param(0.0, 1, id="none is the smallest"),
        pytest.param(1.0, 100, id="all is the largest"),
    ],
)
def test_percentile_is_the_nearest_rank(share: float, expected: float) -> None:
    assert percentile([float(n) for n in range(100, 0, -1)], share) == expected


def test_median_of_an_even_count_lies_between_the_two_in_the_middle() -> None:
    assert median([4, 1, 3, 2]) == 2.5


@pytest.mark.anyio
async def test_warm_ups_do_not_count_and_every_case_takes_part_in_every_round() -> None:
    taken: list[str] = []

    def case(name: str) -> Case:
        async def take(count: int) -> list[float]:
            taken.append(name)
            return [float(len(taken))] * count

        return Case(name=name, take=take, per_round=3)

    measured = await take_turns("group", [case("a"), case("b")], rounds=4, warm_ups=2)

    assert len(measured.samples("a")) == len(measured.samples("b")) == 12
    assert taken.count("a") == taken.count("b") == 6
    assert min(measured.samples("a") + measured.samples("b")) == 5
    turns = taken[4:]
    assert all(set(turns[first : first + 2]) == {"a", "b"} for first in range(0, 8, 2))


@pytest.mark.anyio
async def test_a_case_that_measured_nothing_is_an_error() -> None:
    async def nothing(_count: int) -> list[float]:
        return []

    with pytest.raises(AssertionError, match="idle measured nothing"):
        await take_turns("group", [Case(name="idle", take=nothing)], rounds=1, warm_ups=0)
