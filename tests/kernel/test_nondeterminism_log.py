"""A tape as such: what is recorded is served, the first difference is named, and no tape ends the code."""

from __future__ import annotations

import zlib
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool_guest.python.nondeterminism_log import KINDS, NondeterminismLog
from moonpool_wire.limits import DIVERGENCE_CHARS_MAX, NONDETERMINISM_BYTES_MAX

TIME, MONOTONIC, PERF_COUNTER, NOW, URANDOM = (
    KINDS.index(name) for name in ("time.time", "time.monotonic", "time.perf_counter", "datetime.now", "os.urandom")
)


def recorded(numbers: dict[int, list[int]] | None = None, pieces: list[bytes] | None = None) -> bytes:
    tape = NondeterminismLog(record=True)
    for kind, values in (numbers or {}).items():
        for value in values:
            tape.number(kind, lambda value=value: value)
    for piece in pieces or []:
        tape.piece(URANDOM, len(piece), lambda _, piece=piece: piece)
    return tape.finish()[0]


def unread() -> int:
    raise AssertionError("a real clock was read")


moments = st.integers(min_value=-(2**52), max_value=2**52)


@given(st.dictionaries(st.sampled_from([TIME, MONOTONIC, NOW]), st.lists(moments, min_size=1)), st.lists(st.binary()))
def test_what_was_recorded_is_served_and_recorded_again(numbers: dict[int, list[int]], pieces: list[bytes]) -> None:
    tape = recorded(numbers, pieces)
    player = NondeterminismLog(record=True, played=tape)
    assert {kind: [player.number(kind, unread) for _ in values] for kind, values in numbers.items()} == numbers
    assert [player.piece(URANDOM, len(piece), bytes) for piece in pieces] == pieces
    assert player.finish() == (tape, "")


def test_kinds_are_served_apart_whatever_their_order() -> None:
    player = NondeterminismLog(record=False, played=recorded({TIME: [1, 3], NOW: [2]}))
    assert [player.number(NOW, unread), player.number(TIME, unread), player.number(TIME, unread)] == [2, 1, 3]


def test_an_empty_log_is_a_few_bytes() -> None:
    assert recorded() == b"MT1\0"


def test_a_small_log_is_a_zlib_stream_as_a_large_one() -> None:
    for size in (0, 200, 243, 244, 3000):
        blocks = zlib.decompress(recorded(pieces=[bytes(size)])[4:])
        assert len(blocks) == 5 + 4 + size


def test_readings_of_a_clock_take_a_few_bytes_each() -> None:
    assert len(recorded({TIME: [1_700_000_000_000_000_000 + 137 * n for n in range(10_000)]})) < 2000


def test_one_reading_too_many_is_named_and_from_there_all_is_real() -> None:
    player = NondeterminismLog(record=False, played=recorded({TIME: [1], NOW: [5]}))
    assert [player.number(TIME, lambda: 9) for _ in range(2)] == [1, 9]
    assert player.number(NOW, lambda: 9) == 9
    assert player.finish() == (b"", "reading 2 of time.time is one more than was recorded")


def test_a_reading_of_what_was_never_recorded_is_named() -> None:
    player = NondeterminismLog(record=False, played=recorded({TIME: [1]}))
    player.number(NOW, lambda: 9)
    assert player.finish()[1] == "reading 1 of datetime.now: none was recorded"


def test_another_number_of_bytes_is_named() -> None:
    player = NondeterminismLog(record=False, played=recorded(pieces=[b"12", b"3456"]))
    assert [player.piece(URANDOM, 2, bytes), player.piece(URANDOM, 2, bytes)] == [b"12", b"\0\0"]
    assert player.finish()[1] == "reading 2 of os.urandom asks for 2 bytes, but 4 were recorded"


def test_readings_that_nobody_wanted_are_named() -> None:
    player = NondeterminismLog(record=False, played=recorded({TIME: [1, 2, 3]}))
    player.number(TIME, unread)
    assert player.finish()[1] == "time.time was read 1 times, but 3 were recorded"


def test_clocks_that_never_go_back_go_on_from_what_was_played() -> None:
    player = NondeterminismLog(record=False, played=recorded({MONOTONIC: [1000], PERF_COUNTER: [1500]}))
    player.number(MONOTONIC, unread)
    player.number(PERF_COUNTER, unread)
    clock = count(7)
    assert [player.number(MONOTONIC, lambda: next(clock)) for _ in range(3)] == [1500, 1501, 1502]


def test_a_full_log_stops_says_that_it_is_incomplete_and_the_code_goes_on() -> None:
    tape = NondeterminismLog(record=True)
    big = NONDETERMINISM_BYTES_MAX // 4
    assert [len(tape.piece(URANDOM, big, bytes)) for _ in range(5)] == [big] * 5
    assert tape.number(TIME, lambda: 3) == 3
    body, _ = tape.finish()
    player = NondeterminismLog(record=False, played=body)
    assert [len(player.piece(URANDOM, big, bytes)) for _ in range(4)] == [big] * 4
    assert player.finish()[1] == "the nondeterminism log is incomplete and ends before reading 4 of os.urandom"


def test_whatever_is_recorded_fits() -> None:
    tape = NondeterminismLog(record=True)
    noise = iter(range(0, 2**40, 7_919_111))
    for _ in range(NONDETERMINISM_BYTES_MAX // 8):
        tape.number(TIME, lambda: hash((next(noise), "x")) & 2**61 - 1)
    body, _ = tape.finish()
    assert len(body) <= NONDETERMINISM_BYTES_MAX
    assert body[3] == 1


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"MT1", id="cut head"),
        pytest.param(b"MT2\0", id="another version"),
        pytest.param(b"MT1\0junk", id="no zlib"),
        pytest.param(recorded({TIME: [1, 2, 3]})[:-3], id="cut"),
        pytest.param(b"MT1\0" + zlib.compress(bytes(2 * NONDETERMINISM_BYTES_MAX)), id="bomb"),
        pytest.param(b"MT1\0" + zlib.compress(b"\xff\1\0\0\0" + bytes(8)), id="unknown kind"),
        pytest.param(b"MT1\0" + zlib.compress(b"\1\xff\xff\xff\xff" + bytes(8)), id="more readings than bytes"),
        pytest.param(b"MT1\0" + zlib.compress(b"\1\1\0\0\0" + b"\xff" * 7 + b"\x7f"), id="out of range"),
        pytest.param(b"MT1\0" + zlib.compress(b"\x16\1\0\0\0\xff\xff\xff\xff"), id="a piece longer than the tape"),
    ],
)
def test_a_log_that_cannot_be_read_says_so_and_everything_is_real(body: bytes) -> None:
    player = NondeterminismLog(record=False, played=body)
    assert player.number(TIME, lambda: 3) == 3
    assert player.finish()[1].startswith("the nondeterminism log cannot be read: ")


@given(st.one_of(st.binary(), st.binary().map(lambda blocks: b"MT1\0" + zlib.compress(blocks))))
def test_no_bytes_end_the_code(body: bytes) -> None:
    player = NondeterminismLog(record=True, played=body)
    assert isinstance(player.number(TIME, lambda: 3), int)
    assert len(player.piece(URANDOM, 4, bytes)) == 4
    assert len(player.finish()[1]) <= DIVERGENCE_CHARS_MAX
