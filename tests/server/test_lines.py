"""Bytes to lines and back."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.server.mcp.lines import LineReader, LineSplitter, LineWriter, TooLong

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CAP = 10


def split(pieces: list[bytes]) -> list[bytes | None]:
    splitter = LineSplitter(CAP)
    lines = [line for piece in pieces for line in splitter.feed(piece)] + splitter.finish()
    return [None if isinstance(line, TooLong) else line for line in lines]


@pytest.mark.req("B-012")
@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b" ", b"0123456789", b"x" * 11])), st.data())
def test_lines_do_not_depend_on_how_the_bytes_arrive(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    expected = [None if len(line) > CAP else line.strip() for line in whole.split(b"\n")]
    assert split(pieces) == [line for line in expected if line != b""]


@pytest.mark.anyio
async def test_a_reader_gives_every_line_and_then_the_end_for_ever() -> None:
    read_end, write_end = os.pipe()
    reader = LineReader(read_end, line_bytes_max=100)
    os.write(write_end, b"one\ntwo\r\n\n" + b"x" * 101 + b"\nlast")
    os.close(write_end)
    with anyio.fail_after(30):
        lines = [await reader.receive() for _ in range(5)]

    assert [line if not isinstance(line, TooLong) else "too long" for line in lines] == [
        *(b"one", b"two", "too long", b"last", None)
    ]
    assert await reader.receive() is None
    os.close(read_end)


@pytest.mark.anyio
@pytest.mark.req("B-011")
async def test_lines_of_many_writers_are_whole() -> None:
    read_end, write_end = os.pipe()
    reader = LineReader(read_end)
    writer = LineWriter(write_end, on_broken=lambda: None)
    lines = [bytes([65 + i]) * 200_000 + b"\n" for i in range(20)]
    received: list[object] = []

    async def read() -> None:
        received.extend([await reader.receive() for _ in lines])

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            for line in lines:
                tasks.start_soon(writer.send, line)
        await writer.close(5)
    reader.close()

    assert sorted(map(bytes, received)) == [line.strip() for line in lines]  # pyright: ignore[reportArgumentType]
    os.close(read_end)
    os.close(write_end)


@pytest.mark.anyio
async def test_a_cancelled_wait_does_not_cut_the_line() -> None:
    read_end, write_end = os.pipe()
    writer = LineWriter(write_end, on_broken=lambda: None)
    with anyio.move_on_after(0.05):
        await writer.send(b"x" * 200_000 + b"\n")  # more than the pipe holds, and nobody reads
    reader = LineReader(read_end)
    with anyio.fail_after(30):
        line = await reader.receive()
        await writer.close(5)
    reader.close()

    assert line == b"x" * 200_000
    os.close(read_end)
    os.close(write_end)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "ends", [os.pipe, lambda: [end.detach() for end in socket.socketpair()]], ids=["pipe", "socket"]
)
async def test_what_is_taken_at_once_is_written_at_once_and_in_order(ends: Callable[[], Sequence[int]]) -> None:
    read_end, write_end = ends()
    writer = LineWriter(write_end, on_broken=lambda: None)
    with pytest.raises(StopIteration):
        writer.send(b"one\n").send(None)  # does not wait for anything
    assert os.get_blocking(write_end)
    reader = LineReader(read_end)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.send, b"x" * 1_000_000 + b"\n")  # more than it takes
        await anyio.lowlevel.checkpoint()
        tasks.start_soon(writer.send, b"three\n")
        await anyio.lowlevel.checkpoint()
        with anyio.fail_after(30):
            assert [await reader.receive() for _ in range(3)] == [b"one", b"x" * 1_000_000, b"three"]
    await writer.close(5)
    reader.close()
    os.close(read_end)
    os.close(write_end)


@pytest.mark.anyio
async def test_a_writer_without_a_reader_says_so_once_and_lets_everybody_go() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    broken: list[int] = []
    writer = LineWriter(write_end, on_broken=lambda: broken.append(1))
    with anyio.fail_after(30):
        await writer.send(b"one\n")
        await writer.send(b"two\n")
        await writer.close(5)

    assert broken == [1]
    os.close(write_end)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "ends", [os.pipe, lambda: [end.detach() for end in socket.socketpair()]], ids=["pipe", "socket"]
)
async def test_a_writer_says_that_its_reader_has_gone_also_when_it_writes_nothing(
    ends: Callable[[], Sequence[int]],
) -> None:
    read_end, write_end = ends()
    broken = asyncio.Event()
    writer = LineWriter(write_end, on_broken=broken.set)
    os.close(read_end)
    with anyio.fail_after(5):
        await broken.wait()
        await writer.close(5)

    os.close(write_end)


@pytest.mark.anyio
async def test_input_on_the_descriptor_of_a_writer_is_no_end_of_it() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        broken: list[int] = []
        writer = LineWriter(ours.fileno(), on_broken=lambda: broken.append(1))
        theirs.sendall(b"for somebody else\n")
        with anyio.fail_after(5):
            await writer.send(b"one\n")
            await writer.close(5)

        assert (theirs.recv(10), ours.recv(20), broken) == (b"one\n", b"for somebody else\n", [])
