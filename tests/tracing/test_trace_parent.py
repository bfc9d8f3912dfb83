"""`traceparent`: what is taken for one."""

from __future__ import annotations

import pytest

from moonpool.tracing.spans import TraceParent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize("flags", ["00", "01", "03"])
def test_what_is_written_is_read(flags: str) -> None:
    place = TraceParent.parse(f"00-{TRACE}-{SPAN}-{flags}")
    assert place is not None
    assert (place.trace_id, place.span_id, place.is_sampled) == (TRACE, SPAN, flags != "00")
    assert TraceParent.parse(str(place)) == place


def test_a_later_version_may_say_more() -> None:
    assert TraceParent.parse(f"cc-{TRACE}-{SPAN}-01-what-comes") == TraceParent(TRACE, SPAN, is_sampled=True)


@pytest.mark.parametrize(
    "value",
    [
        None, 7, "", "00", ["00"], {}, f"00-{TRACE}-{SPAN}", f"00-{TRACE}-{SPAN}-01-more", f"00-{TRACE}-{SPAN}-01\n",
        f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0g", f" 00-{TRACE}-{SPAN}-01", f"cc-{TRACE}-{SPAN}-01{'-x' * 300}",
        f"00-{TRACE}-{SPAN}-٠١",
    ],
    ids=repr,
)  # fmt: skip
def test_everything_else_is_nothing(value: object) -> None:
    assert TraceParent.parse(value) is None
