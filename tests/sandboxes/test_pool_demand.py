"""How many stand ready: the marks, what raises the number, what lowers it."""

from __future__ import annotations

import pytest

from moonpool.sandboxes.pool_demand import BURST_S, HALF_LIFE_S, KEPT_S, Demand


def burst(demand: Demand, count: int, at: float) -> None:
    for number in range(count):
        demand.note(at + number * BURST_S / 100)


@pytest.mark.parametrize(
    ("low", "high", "callers", "expected"),
    [
        pytest.param(2, 8, 0, 2, id="nobody came: the low mark"),
        pytest.param(0, 8, 0, 0, id="never asked for: none"),
        pytest.param(0, 8, 1, 1, id="asked for once: one"),
        pytest.param(2, 8, 1, 2, id="one caller at a time: the low mark is enough"),
        pytest.param(2, 8, 5, 5, id="five at once: five"),
        pytest.param(2, 8, 50, 8, id="fifty at once: the high mark"),
        pytest.param(0, 0, 50, 0, id="high mark 0: none ever"),
    ],
)
def test_the_number_follows_how_many_come_at_once(low: int, high: int, callers: int, expected: int) -> None:
    demand = Demand(ready_low=low, ready_high=high)
    burst(demand, callers, at=100.0)
    assert demand.target(100.1) == expected


def test_callers_who_come_one_after_the_other_need_no_more_than_the_low_mark() -> None:
    demand = Demand(ready_low=2, ready_high=8)
    for number in range(100):
        demand.note(2 * BURST_S * number)
    assert demand.target(200 * BURST_S) == 2


def test_a_burst_is_forgotten_little_by_little() -> None:
    demand = Demand(ready_low=1, ready_high=8)
    burst(demand, 8, at=100.0)
    seen = [demand.target(100.1 + HALF_LIFE_S * halves) for halves in range(5)]
    assert seen == [8, 4, 2, 1, 1]


def test_a_kind_that_was_used_keeps_one_for_a_while_and_then_none() -> None:
    demand = Demand(ready_low=0, ready_high=8)
    demand.note(100.0)
    assert [demand.target(100 + KEPT_S - 1), demand.target(100 + KEPT_S)] == [1, 0]


def test_it_rests_when_nothing_but_a_caller_would_change_it() -> None:
    demand = Demand(ready_low=2, ready_high=8)
    assert demand.rests(0)
    burst(demand, 3, at=0)
    assert [demand.rests(1), demand.rests(1 + KEPT_S)] == [False, True]
