"""The watch of the free space of attached folders: what ends a sandbox, and what is no end of the watch."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.sandboxes import bubblewrap, folder_space
from moonpool.sandboxes.base import SandboxSpec
from moonpool.sandboxes.bubblewrap import BubblewrapBackend
from moonpool.sandboxes.folder_binding import BoundFolders
from moonpool.sandboxes.folder_space import SpaceWatch
from moonpool.sandboxes.host_folders import HostFolder, HostFolders

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.sandboxes.base import ImageSpec

pytestmark = pytest.mark.anyio


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setattr(folder_space, "_PAUSE_S", 0.001)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return tmp_path / "a", tmp_path / "b"


@asynccontextmanager
async def watching(*folders: Path) -> AsyncGenerator[tuple[SpaceWatch, anyio.Event]]:
    """A watch, and the end of its sandbox."""
    watch, killed = (
        SpaceWatch(HostFolders(tuple(HostFolder(one, writable=True) for one in folders)), None),
        anyio.Event(),
    )
    watch.start(killed.set)
    try:
        with anyio.fail_after(30):
            yield watch, killed
    finally:
        watch.stop()


async def test_a_folder_that_is_removed_is_no_end_of_the_watch(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(*two) as (watch, killed):
        two[0].rmdir()
        monkeypatch.setattr(folder_space, "_LEFT_BYTES_MIN", 1 << 62)
        await killed.wait()
        assert watch.is_full


async def test_a_folder_that_cannot_be_looked_at_is_left_out_and_the_sandbox_ends_with_the_last(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, lost = threading.Semaphore(0), {two[0].stat().st_ino}

    def is_full(fd: int) -> bool:
        if os.fstat(fd).st_ino in lost:
            raise OSError(5, "Input/output error")
        looks.release()
        return False

    monkeypatch.setattr(folder_space, "_is_full", is_full)
    async with watching(*two) as (_, killed):
        for _ in range(3):
            assert await anyio.to_thread.run_sync(lambda: looks.acquire(timeout=30))
        assert not killed.is_set()
        lost.add(two[1].stat().st_ino)
        await killed.wait()


async def test_a_watch_that_ends_leaves_nothing_open(two: tuple[Path, Path]) -> None:
    def open_folders() -> set[str]:
        return {target for fd in Path("/proc/self/fd").iterdir() if (target := _target(fd)) in map(str, two)}

    SpaceWatch(HostFolders((HostFolder(two[0], writable=True),)), None).stop()
    assert open_folders() == set()
    async with watching(*two):
        assert open_folders() == set(map(str, two))
    with anyio.fail_after(30):
        while open_folders():
            await anyio.to_thread.run_sync(lambda: None)


def _target(fd: Path) -> str:
    try:
        return str(fd.readlink())
    except FileNotFoundError:
        return ""


def test_a_file_system_without_room_for_files_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_space, "_LEFT_BYTES_MIN", 0)
    with ExitStack() as stack:
        fd = os.open(tmp_path, os.O_PATH)
        stack.callback(os.close, fd)
        assert not folder_space._is_full(fd)
        monkeypatch.setattr(folder_space, "_LEFT_FILES_MIN", 1.1)
        assert folder_space._is_full(fd)


async def test_folders_are_bound_in_a_thread_without_root_too(
    two: tuple[Path, Path], image: ImageSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def bind(*_: object) -> BoundFolders:
        threads.append(threading.current_thread())
        return BoundFolders()

    monkeypatch.setattr(bubblewrap, "bind_folders", bind)
    spec = SandboxSpec(image=image, folders=HostFolders((HostFolder(two[0], writable=True),)))
    with ExitStack() as stack:
        await BubblewrapBackend(tmp_path / "state")._bound(spec, None, stack, stack)
    assert threads
    assert threading.current_thread() not in threads
