"""Roots that change while a server runs: told to servers that are told, links resolved, gone when the folder is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from moonpool.core.errors import ConfigError
from moonpool.upstreams import root_folders
from moonpool.upstreams.fake import FakeUpstream
from upstreams.peers import upstream
from upstreams.test_subscriptions import data, watched

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.upstreams import Upstream

pytestmark = pytest.mark.anyio


async def told(srv: Upstream, count: int) -> list[list[str]]:
    """The lists of roots that the server has got, as soon as there are so many."""
    while True:
        lists = [one["roots"] for one in (await data(srv, "told"))["told"] if "roots" in one]
        if len(lists) >= count:
            return lists
        await anyio.lowlevel.checkpoint()


@pytest.mark.req("D-024", "D-027", "D-031")
async def test_added_and_removed_roots_are_told_to_a_running_server(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with anyio.fail_after(30):
        async with upstream(watched("2025-11-25", tmp_path, roots=[str(first)])) as srv:
            declared = (await data(srv, "told"))["told"][0]["capabilities"]
            srv.roots.add(str(second))
            added = await told(srv, 1)
            assert srv.roots.remove(str(first))
            removed = await told(srv, 2)
    assert declared["roots"] == {"listChanged": True}
    assert added == [[first.as_uri(), second.as_uri()]]
    assert removed[1:] == [[second.as_uri()]]


@pytest.mark.req("D-028")
async def test_a_root_that_is_deleted_or_becomes_a_link_changes_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root_folders, "LOOK_S", 0.05)
    kept, gone, real = tmp_path / "kept", tmp_path / "gone", tmp_path / "real"
    for folder in (kept, gone, real):
        folder.mkdir()
    with anyio.fail_after(30):
        async with upstream(watched("2025-11-25", tmp_path, roots=[str(kept), str(gone)])) as srv:
            await data(srv, "told")
            gone.rmdir()
            deleted = await told(srv, 1)
            gone.symlink_to(real)
            linked = await told(srv, 2)
    assert deleted == [[kept.as_uri()]]
    assert linked[1:] == [[kept.as_uri(), real.as_uri()]]


@pytest.mark.req("D-024", "D-031")
async def test_the_first_root_of_a_server_that_was_told_of_none_connects_it_anew(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        async with upstream(watched("2025-11-25", tmp_path)) as srv:
            before = await data(srv, "told")
            srv.roots.add(str(tmp_path))
            after = await data(srv, "told")
    assert "roots" not in before["told"][0]["capabilities"]
    assert after["told"][0]["capabilities"]["roots"] == {"listChanged": True}


async def test_a_newer_server_is_told_nothing(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        async with upstream(watched("2026-07-28", tmp_path)) as srv:
            await data(srv, "told")
            srv.roots.add(str(tmp_path))
            assert (await data(srv, "told"))["told"] == []


@pytest.mark.req("D-026", "D-028", "D-032", "X-19")
@pytest.mark.parametrize("folder", ["/", "relative", "https://example.com/x", "/a/../b", "file://other/x"])
def test_what_is_no_folder_of_this_machine_cannot_be_added(folder: str) -> None:
    fake: Any = FakeUpstream("srv", {})
    with pytest.raises(ConfigError, match=r"server 'srv': \"roots\""):
        fake.roots.add(folder)
    assert fake.roots.folders == ()
