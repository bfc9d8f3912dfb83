"""The files of a checkpoint, as PID 1 keeps them and puts them back."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moonpool_guest.checkpoints.saved import NotKeptError, SavedFiles

if TYPE_CHECKING:
    from pathlib import Path

_NAMES = st.sampled_from(["a", "b", "c/d", "c/e", "c/f/g", "c"])
_STEP = st.one_of(
    st.tuples(st.just("write"), _NAMES, st.binary(max_size=3)),
    st.tuples(st.just("append"), _NAMES, st.binary(min_size=1, max_size=3)),
    st.tuples(st.just("remove"), _NAMES, st.just(b"")),
    st.tuples(st.just("link"), _NAMES, st.sampled_from([b"a", b"nowhere"])),
    st.tuples(st.just("mode"), _NAMES, st.sampled_from([b"\x00", b"\x80", b"\xc7"])),
    st.tuples(st.just("save"), st.just(""), st.just(b"")),
    st.tuples(st.just("restore"), st.just(""), st.binary(min_size=1, max_size=1)),
)


def seen(place: Path) -> dict[str, object]:
    """What is below `place`, also what its owner may not read."""
    found: dict[str, object] = {}
    for path in sorted(place.iterdir()):
        status = path.lstat()
        if path.is_symlink():
            content: object = str(path.readlink())
        else:
            path.chmod(0o700)
            content = seen(path) if path.is_dir() else (path.read_bytes(), status.st_mtime_ns)
            path.chmod(stat.S_IMODE(status.st_mode))
        found[path.name] = content, status.st_mode
    return found


def carry_out(place: Path, what: str, name: str, data: bytes) -> None:
    path = place / name
    try:
        if what in {"write", "append"}:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.is_symlink():
                with path.open("wb" if what == "write" else "ab") as file:
                    file.write(data)
        elif what == "remove":
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        elif what == "link":
            path.symlink_to(data.decode())
        elif what == "mode" and not path.is_symlink():
            path.chmod(data[0])
    except OSError:
        pass


@given(st.lists(_STEP, max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_was_done_the_folder_comes_back(tmp_path: Path, steps: list[tuple[str, str, bytes]]) -> None:
    place = tmp_path / os.urandom(4).hex()
    place.mkdir()
    files, states = SavedFiles(str(place)), list[dict[str, object]]()
    for what, name, data in steps:
        if what == "save":
            files.save(len(states))
            states.append(seen(place))
        elif what == "restore" and states:
            target = data[0] % len(states)
            assert files.restore(target) == ""
            assert seen(place) == states[target]
        else:
            carry_out(place, what, name, data)
    for target, state in enumerate(states):
        assert files.restore(target) == ""
        assert seen(place) == state


def test_the_folder_itself_may_be_locked(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("before", encoding="utf-8")
    files = SavedFiles(str(tmp_path))
    files.save(1)
    tmp_path.chmod(0)
    files.save(2)
    assert files.restore(1) == ""
    assert (tmp_path / "f").read_text(encoding="utf-8") == "before"
    assert files.restore(2) == ""
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0
    tmp_path.chmod(0o700)


def test_what_cannot_be_kept_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    files = SavedFiles(str(tmp_path))
    (tmp_path / "huge").touch()
    disk = os.statvfs(tmp_path)
    os.truncate(tmp_path / "huge", disk.f_blocks * disk.f_frsize // 2)  # a hole
    with pytest.raises(NotKeptError, match="a quarter of the disk"):
        files.save(1)
    assert not files.has(1)
    (tmp_path / "huge").unlink()
    deep = tmp_path
    for _ in range(70):
        deep /= "d"
        deep.mkdir()
    with pytest.raises(NotKeptError, match="deep"):
        files.save(2)


def test_open_descriptors_see_what_is_put_back(tmp_path: Path) -> None:
    files = SavedFiles(str(tmp_path))
    (tmp_path / "f").write_text("before", encoding="utf-8")
    with (tmp_path / "f").open(encoding="utf-8") as file:
        files.save(1)
        (tmp_path / "f").write_text("afterwards", encoding="utf-8")
        files.restore(1)
        assert file.read() == "before"


def test_large_files_come_back_whole(tmp_path: Path) -> None:
    files, sizes = SavedFiles(str(tmp_path)), (5_000_001, 4 << 20, 4097, 1, 0)
    for number, size in enumerate(sizes):
        (tmp_path / str(number)).write_bytes(os.urandom(size))
    before = seen(tmp_path)
    files.save(1)
    for size in (9_000_000, 5_000_001, 3):
        for number in range(len(sizes)):
            (tmp_path / str(number)).write_bytes(b"x" * size)
        assert files.restore(1) == ""
        assert seen(tmp_path) == before
