"""The token bucket: a burst is free, beyond it the average rate holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool_wire.ratelimit import TokenBucket


def test_a_burst_passes_at_once_and_what_follows_waits() -> None:
    bucket = TokenBucket(rate=10, burst=5)
    assert bucket.take(5, now=0.0) == 0.0
    assert bucket.take(1, now=0.0) == pytest.approx(0.1)


def test_time_refills_no_further_than_the_burst() -> None:
    bucket = TokenBucket(rate=10, burst=5)
    bucket.take(5, now=0.0)
    assert bucket.take(5, now=1000.0) == 0.0
    assert bucket.take(10, now=1000.0) == pytest.approx(1.0)


@given(takes=st.lists(st.tuples(st.floats(0, 2), st.integers(1, 50)), min_size=1, max_size=50))
def test_who_waits_as_told_never_exceeds_rate_and_burst(takes: list[tuple[float, int]]) -> None:
    bucket, now, taken = TokenBucket(rate=100, burst=20), 0.0, 0
    for idle, units in takes:
        now += idle
        wait_s = bucket.take(units, now)
        taken += units
        now += wait_s
        assert taken <= 20 + 100 * now + 1e-6
