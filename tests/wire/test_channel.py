"""The channel's state machine: what one end sends the other end hears, and a hostile end only ever gets WireError."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moonpool_wire.channel import BlobRefused, Channel, Message
from moonpool_wire.frames import Kind, WireError, encode_frame
from moonpool_wire.limits import (
    BLOB_BYTES_MAX_TO_HOST,
    BLOB_CHUNK_BYTES_MAX,
    BLOB_WINDOW_BYTES,
    FRAME_BYTES_MAX,
    HEAD_BYTES_MAX,
    INLINE_BODY_BYTES_MAX,
)
from tables import every_row
from wire.wires import Pair, credit_frame, data_frame, message_frame, open_frame, refuse_frame, zero_chunks

INLINE, WINDOW = INLINE_BODY_BYTES_MAX, BLOB_WINDOW_BYTES
SIZES = (0, 1, INLINE - 1, INLINE, INLINE + 1, WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW + 1, 3 * WINDOW)
messages = st.builds(
    lambda number, size: Message(b'{"n":%d}' % number, number.to_bytes(1, "big") * size),
    st.integers(0, 255),
    st.sampled_from(SIZES) | st.integers(0, 3 * WINDOW),
)


def in_order(heard: list[Message], *, blobs: bool) -> list[Message]:
    return [message for message in heard if (len(message.body) > INLINE) is blobs]


@settings(max_examples=60, deadline=None)
@given(
    to_right=st.lists(messages, max_size=6),
    to_left=st.lists(messages, max_size=6),
    chunk_sizes=st.lists(st.sampled_from([4093, 65_536, 65_537, 262_144]) | st.integers(1000, 300_000), min_size=1),
    settle_after=st.integers(1, 4),
)
def test_what_is_sent_is_heard_both_ways_in_order(
    to_right: list[Message], to_left: list[Message], chunk_sizes: list[int], settle_after: int
) -> None:
    pair = Pair(chunk_sizes=tuple(chunk_sizes))
    for index in range(max(len(to_right), len(to_left))):
        for end, queue in ((pair.left, to_right), (pair.right, to_left)):
            if index < len(queue):
                end.send(queue[index].head, queue[index].body)
        if index % settle_after == 0:
            pair.settle()
    pair.settle()

    for heard, sent in ((pair.heard_right, to_right), (pair.heard_left, to_left)):
        assert all(isinstance(event, Message) for event in heard)
        for blobs in (True, False):
            assert in_order(heard, blobs=blobs) == in_order(sent, blobs=blobs)
    assert pair.left.unsent_bytes == pair.right.unsent_bytes == 0


@pytest.mark.parametrize("size", [0, INLINE, INLINE + 1, WINDOW + 1])
@pytest.mark.parametrize("chunk", [1, 3, 7])
def test_the_smallest_chunks_change_nothing(size: int, chunk: int) -> None:
    if size * 2 // chunk > WINDOW:
        size = INLINE + 1
    pair = Pair(chunk_sizes=(chunk,))
    pair.left.send(b"{}", b"x" * size)
    pair.settle()
    assert pair.heard_right == [Message(b"{}", b"x" * size)]


def test_a_small_message_passes_a_waiting_blob() -> None:
    pair = Pair()
    pair.left.send(b'{"blob":1}', bytes(5 * WINDOW))
    pair.left.send(b'{"small":1}', b"s")
    pair.settle()
    assert [event.head for event in pair.heard_right] == [b'{"small":1}', b'{"blob":1}']


def test_without_credits_no_more_than_the_window_leaves() -> None:
    sender = Channel(blob_bytes_max=WINDOW)
    sender.send(b"{}", bytes(10 * WINDOW))
    sender.send(b"{}", bytes(INLINE + 1))
    assert WINDOW <= len(sender.data_to_send()) < WINDOW + 1024
    assert sender.data_to_send() == b""
    assert sender.unsent_bytes == 9 * WINDOW + INLINE + 1


def test_frames_are_counted_also_those_without_an_event() -> None:
    receiver = Channel(blob_bytes_max=WINDOW)
    receiver.receive(message_frame() + open_frame(1, WINDOW) + data_frame(1, b"\0") * 3)
    assert receiver.frames_received == 5


def test_frames_that_are_not_wanted_yet_wait() -> None:
    receiver = Channel(blob_bytes_max=WINDOW)
    assert len(receiver.receive(message_frame() * 3, 2)) == 2
    assert (receiver.has_frames, receiver.frames_received) == (True, 2)
    assert len(receiver.receive(b"", 2)) == 1
    assert (receiver.has_frames, receiver.frames_received) == (False, 3)


def test_the_longest_head_passes_inline_and_with_a_blob() -> None:
    pair = Pair()
    head = b"h" * HEAD_BYTES_MAX
    pair.left.send(head, bytes(INLINE))
    pair.left.send(head, bytes(INLINE + 1))
    pair.settle()
    assert [(event.head, len(event.body)) for event in pair.heard_right if isinstance(event, Message)] == [
        (head, INLINE),
        (head, INLINE + 1),
    ]


def test_a_head_of_ours_that_is_too_long_is_our_bug() -> None:
    with pytest.raises(AssertionError):
        Channel(blob_bytes_max=WINDOW).send(b"h" * (HEAD_BYTES_MAX + 1))


def test_a_limit_below_the_window_is_our_bug() -> None:
    with pytest.raises(AssertionError):
        Channel(blob_bytes_max=WINDOW - 1)


# --- refusals


@pytest.mark.parametrize("limit", [WINDOW, WINDOW + 1, 2 * WINDOW])
def test_a_blob_above_the_limit_is_refused_and_the_next_ones_arrive(limit: int) -> None:
    pair = Pair(blob_bytes_max=limit)
    pair.left.send(b'{"n":1}', bytes(limit + 1))
    pair.left.send(b'{"n":2}', bytes(limit))
    pair.left.send(b'{"n":3}', bytes(3 * limit))
    pair.left.send(b'{"n":4}', bytes(INLINE + 1))
    pair.settle()

    assert pair.heard_left == [BlobRefused(b'{"n":1}', limit + 1), BlobRefused(b'{"n":3}', 3 * limit)]
    assert pair.heard_right == [Message(b'{"n":2}', bytes(limit)), Message(b'{"n":4}', bytes(INLINE + 1))]
    assert pair.left.unsent_bytes == 0


def test_a_size_of_2_to_the_64_is_refused_without_keeping_a_byte() -> None:
    receiver = Channel(blob_bytes_max=BLOB_BYTES_MAX_TO_HOST)
    assert receiver.receive(open_frame(1, 2**64 - 1) + data_frame(1, bytes(BLOB_CHUNK_BYTES_MAX))) == []
    assert receiver.data_to_send() == refuse_frame(1)


# --- a peer that breaks the protocol


def opened(size: int = WINDOW) -> bytes:
    return open_frame(1, size)


@every_row(
    ("frames", "match"),
    [
        pytest.param(encode_frame(Kind.MESSAGE, b"\x00"), "wrong length", id="message without a head length"),
        pytest.param(message_frame(b"{}", head_length=3), "does not fit", id="head longer than its frame"),
        pytest.param(message_frame(bytes(HEAD_BYTES_MAX + 1)), "does not fit", id="head too long"),
        pytest.param(message_frame(b"", bytes(INLINE + 1)), "does not fit", id="inline body too long"),
        pytest.param(encode_frame(Kind.BLOB_OPEN, bytes(43)), "wrong length", id="open too short"),
        pytest.param(open_frame(0, WINDOW), "out of turn", id="blob id zero"),
        pytest.param(opened() + open_frame(2, WINDOW), "out of turn", id="second open"),
        pytest.param(opened() + zero_chunks(1, WINDOW) + opened(), "out of turn", id="blob id used twice"),
        pytest.param(open_frame(1, WINDOW, head=bytes(HEAD_BYTES_MAX + 1)), "out of turn", id="blob head too long"),
        pytest.param(open_frame(1, INLINE), "inline", id="small blob"),
        pytest.param(encode_frame(Kind.BLOB_DATA, bytes(3)), "wrong length", id="data too short"),
        pytest.param(data_frame(1, b"x"), "not open", id="data without open"),
        pytest.param(data_frame(0, b"x"), "not open", id="data for blob zero"),
        pytest.param(opened() + data_frame(2, b"x"), "not open", id="data for another blob"),
        pytest.param(opened() + data_frame(1, b""), "more or less", id="empty chunk"),
        pytest.param(open_frame(1, INLINE + 1) + zero_chunks(1, INLINE + 2), "more or less", id="more than announced"),
        pytest.param(
            open_frame(1, INLINE + 1, digest=bytes(32)) + zero_chunks(1, INLINE + 1), "digest", id="wrong digest"
        ),
        pytest.param(credit_frame(1, 1), "never sent", id="credit for nothing"),
        pytest.param(credit_frame(0, 1), "never sent", id="credit for blob zero"),
        pytest.param(encode_frame(Kind.BLOB_CREDIT, bytes(9)), "wrong length", id="credit too long"),
        pytest.param(refuse_frame(1), "not being sent", id="refusal of nothing"),
        pytest.param(encode_frame(Kind.BLOB_REFUSE, bytes(3)), "wrong length", id="refusal too short"),
        pytest.param(encode_frame(Kind.BLOB_REFUSE, bytes(5)), "wrong length", id="refusal too long"),
    ],
)
def test_a_broken_rule_kills_the_channel(frames: bytes, match: str) -> None:
    receiver = Channel(blob_bytes_max=4 * WINDOW)
    with pytest.raises(WireError, match=match):
        receiver.receive(frames)
    with pytest.raises(WireError, match="broken"):
        receiver.receive(message_frame())


def test_chunks_that_were_on_their_way_to_a_refused_blob_are_dropped_but_not_for_ever() -> None:
    receiver = Channel(blob_bytes_max=WINDOW)
    receiver.receive(open_frame(1, 2 * WINDOW) + zero_chunks(1, WINDOW))
    with pytest.raises(WireError, match="not open"):
        receiver.receive(zero_chunks(1, INLINE))


def sending(size: int) -> Channel:
    sender = Channel(blob_bytes_max=WINDOW)
    sender.send(b"{}", bytes(size))
    sender.data_to_send()
    return sender


def test_a_credit_for_a_blob_that_went_out_whole_is_late_and_harmless() -> None:
    sender = sending(WINDOW)
    assert sender.receive(credit_frame(1, WINDOW)) == []
    assert sender.data_to_send() == b""


def test_a_credit_lets_exactly_that_much_more_leave() -> None:
    sender = sending(3 * WINDOW)
    sender.receive(credit_frame(1, 10))
    assert sender.data_to_send() == data_frame(1, bytes(10))


def test_a_giant_credit_is_a_broken_rule() -> None:
    with pytest.raises(WireError, match="credit of"):
        sending(3 * WINDOW).receive(credit_frame(1, 2**32 - 1))


def test_credits_without_end_do_not_add_up() -> None:
    sender = sending(20 * WINDOW)
    for _ in range(8):
        sender.receive(credit_frame(1, 2 * WINDOW))
        assert len(sender.data_to_send()) <= 2 * WINDOW + 4096


def test_the_refusal_of_another_blob_is_a_broken_rule() -> None:
    with pytest.raises(WireError, match="not being sent"):
        sending(3 * WINDOW).receive(refuse_frame(2))


# --- junk

frames_of_junk = st.lists(
    st.builds(encode_frame, st.sampled_from(Kind), st.binary(max_size=120))
    | st.builds(open_frame, st.integers(0, 3), st.sampled_from([0, INLINE + 1, WINDOW, 5 * WINDOW]))
    | st.builds(data_frame, st.integers(0, 3), st.binary(max_size=100))
    | st.builds(credit_frame, st.integers(0, 3), st.integers(0, 2**32 - 1))
    | st.builds(refuse_frame, st.integers(0, 3))
    | st.binary(max_size=64),
    max_size=30,
)


@given(junk=frames_of_junk, blob_in_flight=st.booleans())
def test_junk_gives_events_or_wire_error_and_keeps_no_more_than_the_limit(
    junk: list[bytes], blob_in_flight: bool
) -> None:
    channel = sending(3 * WINDOW) if blob_in_flight else Channel(blob_bytes_max=WINDOW)
    sent = 0
    try:
        for data in junk:
            channel.receive(data)
            sent += len(channel.data_to_send())
            incoming = channel._incoming
            assert channel._decoder.buffered_bytes <= FRAME_BYTES_MAX + 4
            assert incoming is None or len(incoming.taken) <= incoming.size <= WINDOW
    except WireError:
        pass
    assert sent <= 3 * WINDOW + 100 * (len(junk) + 50)


@given(flips=st.lists(st.tuples(st.integers(0, 70_000), st.integers(1, 255)), min_size=1, max_size=4))
def test_a_damaged_stream_never_yields_a_blob_that_differs(flips: list[tuple[int, int]]) -> None:
    sender = Channel(blob_bytes_max=WINDOW)
    body = hashlib.sha256(b"seed").digest() * ((INLINE + 32) // 32 + 1)
    sender.send(b'{"n":1}', body)
    stream = bytearray(sender.data_to_send())
    for at, mask in flips:
        stream[at % len(stream)] ^= mask
    try:
        heard = Channel(blob_bytes_max=WINDOW).receive(bytes(stream))
    except WireError:
        return
    assert all(isinstance(event, Message) and event.body == body for event in heard if len(event.body) > INLINE)
