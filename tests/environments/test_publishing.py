"""Folders appear whole or not at all, one builder at a time, and only where sandboxes can read them safely."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from moonpool.environments.base import EnvironmentBuildError, EnvironmentFolderError
from moonpool.environments.publishing import (
    BUILDING_PREFIX,
    building_folder,
    building_lock,
    ensure_root,
    held_lock,
    remove_stale_builds,
)

STRANGER = 54321
HOLD_LOCK = """
import fcntl, os, pathlib, sys
root = pathlib.Path(sys.argv[1])
lock = os.open(root / ".lock-data", os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
(root / "data").mkdir()
(root / "data" / ".building-abc-1").mkdir()
(root / "data" / ".building-abc-1" / "half").write_text("x", encoding="utf-8")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_folder_appears_with_its_contents_readable_and_closed_to_writing(tmp_path: Path) -> None:
    final = tmp_path / "kind" / "digest"

    with building_folder(final) as folder:
        assert not final.exists()
        (folder / "tool").write_bytes(b"x")
        (folder / "tool").chmod(0o700)
        (folder / "sub").mkdir(mode=0o700)
        (folder / "sub" / "text").write_bytes(b"x")
        (folder / "sub" / "text").chmod(0o600)

    modes = {path.name: path.stat().st_mode & 0o777 for path in final.rglob("*")}
    assert modes == {"tool": 0o555, "sub": 0o755, "text": 0o444}


def test_a_tree_that_cannot_be_copied_is_one_sentence(tmp_path: Path) -> None:
    def build() -> None:
        with building_folder(tmp_path / "kind" / "digest"):
            full = "[Errno 28] No space left on device: 'a' -> 'b'"
            raise shutil.Error([("a", "b", full), ("c", "d", "other")])

    with pytest.raises(
        EnvironmentBuildError, match=r"cannot write .*digest: \[Errno 28\] No space left .*free disk space"
    ):
        build()


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    final = tmp_path / "kind" / "digest"

    def build() -> None:
        with building_folder(final) as folder:
            (folder / "half").write_bytes(b"x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        build()

    assert list(final.parent.iterdir()) == []


def test_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    final = tmp_path / "kind" / "digest"

    def build() -> None:
        with building_folder(final):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(EnvironmentBuildError, match=r"cannot write .*digest: No space left.*free disk space"):
        build()

    assert list(final.parent.iterdir()) == []


def test_a_link_in_a_build_is_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"x")
    outside.chmod(0o600)

    with building_folder(tmp_path / "kind" / "digest") as folder:
        (folder / "link").symlink_to(outside)

    assert outside.stat().st_mode & 0o777 == 0o600


def test_of_two_equal_builds_the_first_stays(tmp_path: Path) -> None:
    final = tmp_path / "kind" / "digest"
    with building_folder(final) as second:
        (second / "who").write_text("second", encoding="utf-8")
        with building_folder(final) as first:
            (first / "who").write_text("first", encoding="utf-8")

    assert (final / "who").read_text(encoding="utf-8") == "first"
    assert [path.name for path in final.parent.iterdir()] == ["digest"]


@pytest.mark.anyio
async def test_a_builder_waits_for_another_process_and_clears_up_after_it(tmp_path: Path) -> None:
    other = subprocess.Popen(  # noqa: ASYNC220 - a second process is what the test is about
        [sys.executable, "-c", HOLD_LOCK, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdin
    assert other.stdout
    try:
        assert other.stdout.readline() == b"held\n"
        with anyio.move_on_after(0.3) as waited:
            async with building_lock(tmp_path, "data"):
                pass
        assert waited.cancelled_caught

        other.send_signal(signal.SIGKILL)
        with anyio.fail_after(30):
            async with building_lock(tmp_path, "data"):
                await to_thread.run_sync(remove_stale_builds, tmp_path / "data")
    finally:
        other.kill()
        other.wait()
        other.stdin.close()
        other.stdout.close()

    assert list((tmp_path / "data").glob(f"{BUILDING_PREFIX}*")) == []


def test_a_root_is_created_readable_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        ensure_root(tmp_path / "moonpool" / "environments", os.geteuid())
    finally:
        os.umask(before)

    assert (tmp_path / "moonpool").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "moonpool" / "environments").stat().st_mode & 0o777 == 0o755


def test_a_root_that_others_may_change_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)

    with pytest.raises(EnvironmentFolderError, match="can be changed by another user"):
        ensure_root(tmp_path, os.geteuid())


def test_a_root_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "environments"
    root.mkdir(mode=0o755)
    if os.geteuid() == 0:
        os.chown(root, 12_345, 12_345)
    else:
        other = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(EnvironmentFolderError, match="can be changed by another user"):
        ensure_root(root, 200_000)


def test_a_root_that_sandboxes_cannot_read_is_refused_by_name(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)

    with pytest.raises(EnvironmentFolderError, match=r"sandboxes \(uid 54321\) cannot read .*chmod o\+rx"):
        ensure_root(closed / "environments", STRANGER)


def test_a_root_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(EnvironmentFolderError, match="cannot create"):
        ensure_root(tmp_path / "file" / "environments", os.geteuid())


def test_a_folder_in_which_we_cannot_build_says_who_can(tmp_path: Path) -> None:
    (tmp_path / ".lock-guest").symlink_to(tmp_path / "elsewhere")  # refused for root too, unlike a closed folder

    def build() -> None:
        with held_lock(tmp_path, "guest"):
            pass

    with pytest.raises(EnvironmentFolderError, match=r"cannot build in .*; its owner has to build guest"):
        build()
    assert not (tmp_path / "elsewhere").exists()
