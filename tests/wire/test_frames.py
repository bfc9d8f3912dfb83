"""Framing: any chunking gives the same frames; a broken length is refused before anything is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool_wire.frames import FrameDecoder, Kind, WireError, encode_frame
from moonpool_wire.limits import FRAME_BYTES_MAX

frames = st.lists(st.tuples(st.sampled_from(Kind), st.binary(max_size=200)), max_size=20)


@given(sent=frames, cuts=st.lists(st.integers(1, 50), min_size=1))
def test_frames_survive_any_chunking(sent: list[tuple[Kind, bytes]], cuts: list[int]) -> None:
    stream = b"".join(encode_frame(kind, payload) for kind, payload in sent)
    decoder, received, at = FrameDecoder(), [], 0
    while at < len(stream):
        size = cuts[at % len(cuts)]
        received += decoder.feed(stream[at : at + size])
        at += size

    assert received == sent
    assert decoder.buffered_bytes == 0


def test_a_frame_of_the_largest_size_passes() -> None:
    payload = bytes(FRAME_BYTES_MAX)
    assert FrameDecoder().feed(encode_frame(Kind.MESSAGE, payload)) == [(Kind.MESSAGE, payload)]


@pytest.mark.parametrize(
    "word",
    [
        pytest.param(b"\x00\x00\x00\x01", id="kind nobody uses, below"),
        pytest.param(b"\x06\x00\x00\x01", id="kind nobody uses, above"),
        pytest.param(b"\xff\xff\xff\xff", id="all ones"),
        pytest.param((1 << 24 | FRAME_BYTES_MAX + 1).to_bytes(4, "big"), id="one byte too long"),
        pytest.param(b"HTTP", id="another protocol"),
    ],
)
def test_a_bad_word_is_refused_before_its_payload_comes(word: bytes) -> None:
    decoder = FrameDecoder()
    with pytest.raises(WireError, match="frame of kind"):
        decoder.feed(word)


def test_a_decoder_that_has_raised_stays_broken() -> None:
    decoder = FrameDecoder()
    with pytest.raises(WireError):
        decoder.feed(b"\x00\x00\x00\x00")
    with pytest.raises(WireError, match="broken"):
        decoder.feed(encode_frame(Kind.MESSAGE, b"fine"))


def test_what_is_buffered_is_the_part_of_one_frame() -> None:
    decoder = FrameDecoder()
    decoder.feed(encode_frame(Kind.MESSAGE, b"abc") + encode_frame(Kind.MESSAGE, b"defgh")[:6])
    assert decoder.buffered_bytes == 6


def test_frames_that_are_not_wanted_yet_wait() -> None:
    sent = [(Kind.MESSAGE, b"a"), (Kind.BLOB_DATA, b""), (Kind.MESSAGE, b"c")]
    decoder = FrameDecoder()
    stream = b"".join(encode_frame(kind, payload) for kind, payload in sent)
    assert not decoder.has_frame
    assert decoder.feed(stream[:-1], 1) == sent[:1]
    assert decoder.has_frame
    assert decoder.feed(b"", 5) == sent[1:2]
    assert not decoder.has_frame
    assert decoder.feed(stream[-1:], 0) == []
    assert decoder.has_frame
    assert decoder.feed(b"") == sent[2:]


def test_a_bad_word_behind_the_frames_that_were_wanted_is_refused_in_its_turn() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(encode_frame(Kind.MESSAGE, b"fine") + b"HTTP", 1) == [(Kind.MESSAGE, b"fine")]
    assert decoder.has_frame
    with pytest.raises(WireError, match="frame of kind"):
        decoder.feed(b"")


def test_a_frame_of_ours_that_is_too_long_is_our_bug() -> None:
    with pytest.raises(AssertionError):
        encode_frame(Kind.MESSAGE, bytes(FRAME_BYTES_MAX + 1))
