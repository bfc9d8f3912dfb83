"""What is kept of a stream: within its bytes, whole characters, the rest in an artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.engine.output import StreamKeeper

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Plain:
    """A redactor that finds nothing."""

    def feed(self, chunk: bytes) -> bytes:
        return chunk

    def finish(self) -> bytes:
        return b""


class Room:
    """Room for so many bytes in `folder`."""

    def __init__(self, folder: Path, size: int = 10**9) -> None:
        self.folder, self.free = folder, size

    def path(self, name: str) -> Path:
        return self.folder / name

    def grant(self, count: int) -> str:
        if count > self.free:
            return "there is no room"
        self.free -= count
        return ""

    def give_back(self, count: int) -> None:
        self.free += count


def keeper(
    folder: Path,
    *,
    kept: int = 400,
    artifact: int = 10_000,
    room: Room | None = None,
    observer: Callable[[bytes], None] | None = None,
) -> StreamKeeper:
    return StreamKeeper(
        Plain(),
        kept_bytes_max=kept,
        name="stdout",
        artifact_bytes_max=artifact,
        room=room or Room(folder),
        observer=observer,
    )


@given(chunks=st.lists(st.text(max_size=80), max_size=40), kept=st.integers(1, 600))
def test_kept_text_fits_and_is_text(tmp_path_factory: pytest.TempPathFactory, chunks: list[str], kept: int) -> None:
    stream = keeper(tmp_path_factory.mktemp("output"), kept=kept, artifact=100_000)
    for chunk in chunks:
        stream.feed(chunk.encode())
    stream.finish()
    whole = "".join(chunks)
    text = stream.text()
    assert len(text.encode()) <= kept
    assert stream.total_bytes == len(whole.encode())
    if len(whole.encode()) <= kept:
        assert text == whole


@pytest.mark.req("P-009")
def test_the_artifact_holds_everything(tmp_path: Path) -> None:
    stream = keeper(tmp_path)
    stream.feed(b"a" * 300)
    stream.feed(b"b" * 300)
    stream.finish()
    text = stream.text()
    assert (tmp_path / "stdout").read_bytes() == b"a" * 300 + b"b" * 300
    assert text.startswith("aaa")
    assert text.endswith("bbb")
    assert str(tmp_path / "stdout") in text


def test_a_disk_that_cannot_be_written_costs_the_artifact_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    stream = keeper(tmp_path / "file")
    stream.feed(b"a" * 300)
    stream.feed(b"b" * 300)
    stream.finish()
    text = stream.text()
    assert stream.total_bytes == 600
    assert text.startswith("aaa")
    assert text.endswith("bbb")
    assert "could not be kept: File exists" in text


def test_an_artifact_that_finds_no_room_is_given_up_with_its_room_and_nothing_else_is_lost(tmp_path: Path) -> None:
    room, heard = Room(tmp_path, 1000), bytearray()
    stream = keeper(tmp_path / "run", room=room, observer=heard.extend)
    for _ in range(4):
        stream.feed(b"a" * 300)
    stream.finish()
    assert "could not be kept: there is no room" in stream.text()
    assert (stream.total_bytes, len(heard), room.free) == (1200, 1200, 1000)
    assert not (tmp_path / "run").exists()


def test_an_artifact_that_another_process_removed_is_not_named(tmp_path: Path) -> None:
    stream = keeper(tmp_path / "run")
    stream.feed(b"x" * 1000)
    (tmp_path / "run" / "stdout").unlink()
    stream.finish()
    assert "could not be kept: it was removed" in stream.text()


def test_what_comes_after_the_end_changes_nothing_and_raises_nothing(tmp_path: Path) -> None:
    stream = keeper(tmp_path)
    stream.feed(b"a" * 500)
    stream.finish()
    before = stream.text()
    stream.feed(b"late")
    stream.finish()
    assert (stream.text(), stream.total_bytes) == (before, 500)
    assert (tmp_path / "stdout").read_bytes() == b"a" * 500


def test_an_observer_hears_nothing_that_the_redactor_takes_out(tmp_path: Path) -> None:
    class Blanking(Plain):
        def feed(self, chunk: bytes) -> bytes:
            return chunk.replace(b"secret", b"[gone]")

    heard = bytearray()
    stream = StreamKeeper(
        Blanking(),
        kept_bytes_max=400,
        name="stdout",
        artifact_bytes_max=10_000,
        room=Room(tmp_path),
        observer=heard.extend,
    )
    stream.feed(b"a secret\n")
    stream.finish()
    assert bytes(heard) == b"a [gone]\n"


def test_an_observer_that_fails_hears_no_more_and_costs_no_output(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[bytes] = []

    def fail(data: bytes) -> None:
        heard.append(data)
        raise BrokenPipeError

    stream = keeper(tmp_path, observer=fail)
    for _ in range(2):
        stream.feed(b"a" * 300)
    stream.finish()
    assert (len(heard), (tmp_path / "stdout").read_bytes()) == (1, b"a" * 600)
    assert "gets no more" in caplog.text


def test_little_output_makes_no_file(tmp_path: Path) -> None:
    stream = keeper(tmp_path)
    stream.feed(b"a" * 400)
    stream.finish()
    assert not (tmp_path / "stdout").exists()


def test_too_much_is_noticed_and_cut(tmp_path: Path) -> None:
    stream = keeper(tmp_path, artifact=1000)
    stream.feed(b"x" * 1001)
    stream.finish()
    assert stream.overflowed
    assert (tmp_path / "stdout").stat().st_size == 1000


@pytest.mark.parametrize(
    ("data", "line"),
    [
        pytest.param(b"a\nb\n\n", b"b", id="blank lines at the end do not count"),
        pytest.param(b"only", b"only", id="no newline"),
        pytest.param(b"", None, id="nothing"),
        pytest.param(b"x" * 500, None, id="a line that was cut is no line"),
        pytest.param(b"x" * 500 + b"\n{}", b"{}", id="a whole line after a cut"),
    ],
)
def test_last_line(tmp_path: Path, data: bytes, line: bytes | None) -> None:
    stream = keeper(tmp_path)
    stream.feed(data)
    stream.finish()
    assert stream.last_line() == line
