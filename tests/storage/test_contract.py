"""What stored trees promise, on everything they can lie on, and from two replicas."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import msgspec
import pytest

from moonpool.core.errors import InputError
from moonpool.features.storage.heads import GARBAGE_S, LEASE_S, PENDING_S, Hold, TreeKey
from moonpool.features.storage.model import (
    BLOB_BYTES_MAX,
    FILE_BYTES_MAX,
    TREE_ENTRIES_MAX,
    TreeBusyError,
    TreeFullError,
    TreeLostError,
    TreeName,
    UnknownTreeError,
)
from moonpool.features.storage.service import StoredTrees
from moonpool.store.blobs.base import LISTED_MAX, StorageDamagedError
from moonpool.store.blobs.memory import MemoryBlobs
from storage.worlds import THREAD, World, contents, put, read, upload, world
from swift_server import swift_bucket, swift_server

if TYPE_CHECKING:
    from moonpool.features.storage.base import Snapshot

__all__ = ["swift_bucket", "swift_server", "world"]
pytestmark = pytest.mark.anyio
VOLUME = TreeName(kind="volume", name="shared")
DAMAGED = "0" * 64


async def test_an_execution_finds_what_the_one_before_left(world: World) -> None:
    async with world.acme.hold(THREAD, "trc_1") as held:
        assert (list(held.snapshot.tree), held.snapshot.version) == ([], 0)
        writer = held.writer()
        await put(writer, "a.txt", b"hello")
        await put(writer, "empty", b"")
        writer.folder("out")
        writer.link("out/link", "/etc/passwd")
        committed = await held.commit(writer)
        assert (committed.version, writer.bytes_count) == (1, 5)
    async with world.acme_elsewhere.hold(THREAD, "trc_2") as held:
        assert held.snapshot.digest == committed.digest
        assert await contents(held.snapshot) == {"a.txt": b"hello", "empty": b""}
        kinds = {one.path: (one.kind, one.target) for one in held.snapshot.tree if one.kind != "file"}
        assert kinds == {"out": ("folder", ""), "out/link": ("link", "/etc/passwd")}
        writer = held.writer()
        await put(writer, "b.txt", b"world")
        writer.remove("out")
        await held.commit(writer)
    assert await contents(await world.acme.snapshot(THREAD)) == {"a.txt": b"hello", "empty": b"", "b.txt": b"world"}


async def test_what_is_not_committed_changes_nothing(world: World) -> None:
    await upload(world.acme, THREAD, a=b"1")

    async def fail() -> None:
        async with world.acme.hold(THREAD, "trc_1") as held:
            await put(held.writer(), "a", b"2")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await contents(await world.acme.snapshot(THREAD)) == {"a": b"1"}
    async with world.acme_elsewhere.hold(THREAD, "trc_2"):
        pass


@pytest.mark.req("J-023")
@pytest.mark.parametrize("name", ["", "../../x", "x" * 129, "a/b", "a b", "tür", "-a", "_a", "a\n", "a\0"])
def test_another_id_is_no_threads(name: str) -> None:
    with pytest.raises(InputError, match="thread_id must have"):
        TreeName(kind="thread", name=name)


@pytest.mark.req("J-023")
async def test_one_execution_at_a_time_has_a_thread_whichever_replica_asks(world: World) -> None:
    async with world.acme.hold(THREAD, "trc_1"):
        assert (await world.acme_elsewhere.state(THREAD)).held_by == "trc_1"
        for trees in (world.acme, world.acme_elsewhere):
            with pytest.raises(TreeBusyError, match="thread t1 is in use"):
                async with trees.hold(THREAD, "trc_2"):
                    pytest.fail("it is held")
        with pytest.raises(TreeBusyError):
            await world.acme_elsewhere.delete(THREAD)
        async with world.acme_elsewhere.hold(replace(THREAD, owner="user:1"), "trc_3"):
            pass
    assert (await world.acme.state(THREAD)).held_by == ""
    async with world.acme_elsewhere.hold(THREAD, "trc_2"):
        pass


async def test_of_many_that_ask_at_once_one_gets_it(world: World) -> None:
    holding, done = asyncio.Event(), asyncio.Event()
    outcomes: list[str] = []

    async def ask(number: int) -> None:
        trees = (world.acme, world.acme_elsewhere)[number % 2]
        try:
            async with trees.hold(THREAD, f"trc_{number}"):
                outcomes.append("held")
                holding.set()
                await done.wait()
        except TreeBusyError:
            outcomes.append("busy")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(ask, number)
            await holding.wait()
            while len(outcomes) < 8:  # noqa: ASYNC110
                await anyio.sleep(0.01)
            done.set()
    assert sorted(outcomes) == ["busy"] * 7 + ["held"]


async def test_an_upload_during_an_execution_is_merged(world: World) -> None:
    await upload(world.acme, THREAD, a=b"1", b=b"1")
    async with world.acme.hold(THREAD, "trc_1") as held:
        await upload(world.acme_elsewhere, THREAD, b=b"2", c=b"2")
        assert await contents(held.snapshot) == {"a": b"1", "b": b"1"}
        writer = held.writer()
        await put(writer, "a", b"3")
        await put(writer, "d", b"3")
        assert await contents(await held.commit(writer)) == {"a": b"3", "b": b"2", "c": b"2", "d": b"3"}


async def test_two_that_change_at_once_lose_nothing(world: World) -> None:
    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            for number in range(12):
                trees = (world.acme, world.acme_elsewhere)[number % 2]
                tasks.start_soon(lambda trees=trees, number=number: upload(trees, THREAD, **{f"f{number}": b"x"}))
    snapshot = await world.acme.snapshot(THREAD)
    assert (len(snapshot.tree), snapshot.version) == (12, 12)
    assert set((await contents(snapshot)).values()) == {b"x"}


async def test_a_hold_ends_with_its_lease_and_a_late_commit_is_refused(world: World) -> None:
    await upload(world.acme, THREAD, a=b"1")
    async with world.acme.hold(THREAD, "trc_1") as lost:
        world.clock.now += LEASE_S - 0.1
        with pytest.raises(TreeBusyError):
            async with world.acme_elsewhere.hold(THREAD, "trc_2"):
                pytest.fail("its lease goes on")
        world.clock.now += 0.2
        assert (await world.acme.state(THREAD)).held_by == ""
        assert [one.held_by for one in await world.acme_elsewhere.all("thread")] == [""]
        async with world.acme_elsewhere.hold(THREAD, "trc_2") as held:
            writer = lost.writer()
            await put(writer, "a", b"late")
            with pytest.raises(TreeLostError):
                await lost.commit(writer)
            writer = held.writer()
            await put(writer, "a", b"2")
            await held.commit(writer)
    assert await contents(await world.acme.snapshot(THREAD)) == {"a": b"2"}


async def test_a_lease_that_is_renewed_goes_on(world: World) -> None:
    renewed = asyncio.Event()
    renew = world.first.heads.renew

    async def noticed(key: TreeKey, hold: Hold, /) -> bool:
        found = await renew(key, hold)
        renewed.set()
        return found

    world.first.heads.renew = noticed  # type: ignore[method-assign]
    trees = StoredTrees(world.first.heads, world.first.blobs, lease_s=0.06).of("acme")
    with anyio.fail_after(60):
        async with trees.hold(THREAD, "trc_1"):
            for _ in range(3):
                world.clock.now += 0.05
                renewed.clear()
                await renewed.wait()
            with pytest.raises(TreeBusyError):
                async with world.acme_elsewhere.hold(THREAD, "trc_2"):
                    pytest.fail("its lease goes on")


async def test_holds_of_a_service_that_died_are_cleared_when_it_starts(world: World) -> None:
    async with world.acme.hold(THREAD, "trc_1") as lost:
        await world.second.heads.clear_holds()
        async with world.acme_elsewhere.hold(THREAD, "trc_2"):
            writer = lost.writer()
            await put(writer, "a", b"late")
            with pytest.raises(TreeLostError):
                await lost.commit(writer)


async def test_large_and_many_files_are_read_whole_and_in_parts(world: World) -> None:
    large = os.urandom(BLOB_BYTES_MAX * 2 + 12345)
    writer = world.acme.writer(THREAD)
    await writer.begin_file("large", size=len(large))
    for start in range(0, len(large), 1_000_000):
        await writer.write(large[start : start + 1_000_000])
    small = {f"folder/{number}": f"content {number}".encode() for number in range(200)}
    for path, content in small.items():
        await put(writer, path, content)
    snapshot = await world.acme.commit(THREAD, writer)
    again = await world.acme_elsewhere.snapshot(THREAD)
    for one in (snapshot, again):
        assert await contents(one) == {"large": large, **small}
    for start, end in ((0, 10), (BLOB_BYTES_MAX - 5, BLOB_BYTES_MAX + 5), (len(large) - 3, None), (7, 7), (0, 10**12)):
        assert await read(again, "large", start, end) == large[start:end]
    entry = again.tree.find("large")
    assert entry is not None
    assert max([len(part) async for part in again.read(entry)]) <= BLOB_BYTES_MAX
    assert len(again.tree.blobs) == 3


async def test_ten_thousand_entries_are_held(world: World) -> None:
    writer = world.acme.writer(THREAD)
    for number in range(10_000):
        await put(writer, f"d{number % 100}/f{number}", b"x" * (number % 50))
    snapshot = await world.acme.commit(THREAD, writer)
    found = await world.acme_elsewhere.snapshot(THREAD)
    assert (len(found.tree), found.digest) == (10_000, snapshot.digest)
    assert await read(found, "d49/f9949") == b"x" * 49
    writer = world.acme_elsewhere.writer(THREAD)
    await put(writer, "d1/f1", b"changed")
    await world.acme_elsewhere.commit(THREAD, writer)
    assert await read(await world.acme.snapshot(THREAD), "d1/f1") == b"changed"


async def test_more_than_a_tree_holds_is_refused_and_changes_nothing(world: World) -> None:
    await upload(world.acme, THREAD, a=b"1")
    writer = world.acme.writer(THREAD)
    for number in range(TREE_ENTRIES_MAX):
        writer.folder(f"d{number}")
    with pytest.raises(TreeFullError):
        writer.folder("one more")
    with pytest.raises(TreeFullError):
        await world.acme.commit(THREAD, writer)
    with pytest.raises(TreeFullError):
        await world.acme.writer(THREAD).begin_file("b", size=FILE_BYTES_MAX + 1)
    writer = world.acme.writer(THREAD)
    for number in range(4000):
        writer.folder("/".join([*["x" * 250] * 12, f"{number}"]))
    with pytest.raises(TreeFullError, match="names"):
        await world.acme.commit(THREAD, writer)
    writer = world.acme.writer(THREAD)
    for number in range(400):
        writer.folder("/".join([f"{number}", *["x"] * 60]))  # each names 60 folders besides
    with pytest.raises(TreeFullError, match="files and folders"):
        await world.acme.commit(THREAD, writer)
    assert await contents(await world.acme.snapshot(THREAD)) == {"a": b"1"}


async def test_what_takes_a_folders_place_ends_all_below_it_however_often_it_changes(world: World) -> None:
    writer = world.acme.writer(THREAD)
    for path in ("a/b/c/1", "a", "a/b/c/2", "a/b", "a/b/c/3", "a/x"):
        await put(writer, path, b"1")
    await world.acme.commit(THREAD, writer)
    assert set(await contents(await world.acme.snapshot(THREAD))) == {"a/b/c/3", "a/x"}
    writer = world.acme.writer(THREAD)
    await put(writer, "a/b", b"2")
    await world.acme.commit(THREAD, writer)
    assert await contents(await world.acme.snapshot(THREAD)) == {"a/b": b"2", "a/x": b"1"}


async def test_a_file_of_another_size_than_announced_is_refused(world: World) -> None:
    writer = world.acme.writer(THREAD)
    await writer.begin_file("a", size=3)
    await writer.write(b"ab")
    with pytest.raises(InputError, match="fewer"):
        await world.acme.commit(THREAD, writer)
    with pytest.raises(InputError, match="more"):
        await writer.write(b"cd")


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../a", "a/../../b", "a\0b", "a\udcffb", "x" * 5000])
async def test_a_path_that_leaves_the_tree_is_refused(world: World, path: str) -> None:
    writer = world.acme.writer(THREAD)
    with pytest.raises(InputError):
        await writer.begin_file(path, size=0)
    with pytest.raises(InputError):
        writer.folder(path)
    with pytest.raises(InputError):
        writer.remove(path)


async def test_a_file_takes_the_place_of_a_folder_and_the_other_way_round(world: World) -> None:
    await upload(world.acme, THREAD, a__b__c=b"1", x=b"1", y__z=b"1")
    writer = world.acme.writer(THREAD)
    await put(writer, "a", b"file")  # `a` is only implied by `a/b/c`
    await put(writer, "x/deep/er", b"2")
    await put(writer, "y/z", b"first")
    writer.remove("y")
    await put(writer, "y/new", b"3")
    found = await contents(await world.acme.commit(THREAD, writer))
    assert found == {"a": b"file", "x/deep/er": b"2", "y/new": b"3"}
    writer = world.acme.writer(THREAD)
    await put(writer, "n/m", b"1")
    await put(writer, "n", b"2")  # in one change, too
    await put(writer, "o", b"1")
    await put(writer, "o/p", b"2")
    writer.remove("x")
    assert await contents(await world.acme.commit(THREAD, writer)) == {
        "a": b"file", "y/new": b"3", "n": b"2", "o/p": b"2",
    }  # fmt: skip


@pytest.mark.req("J-023")
async def test_another_organisations_tree_is_not_found(world: World) -> None:
    await upload(world.acme, THREAD, a=b"1")
    await world.acme.create_volume("shared")
    other = world.second.trees.of("other")
    for name in (THREAD, VOLUME, TreeName(kind="thread", name="none"), replace(THREAD, owner="user:1")):
        for ask in (other.snapshot, other.state, other.delete):
            with pytest.raises(UnknownTreeError) as raised:
                await ask(name)
            assert str(raised.value).startswith(f"there is no {name.kind} {name.name} here; list the {name.kind}s ")
    assert await other.all("thread") == []
    assert await contents(await upload(other, THREAD, a=b"theirs")) == {"a": b"theirs"}
    assert await contents(await world.acme.snapshot(THREAD)) == {"a": b"1"}


@pytest.mark.req("J-036")
async def test_volumes_are_made_listed_and_removed(world: World) -> None:
    for ask in (world.acme.snapshot, world.acme.state):
        with pytest.raises(UnknownTreeError):
            await ask(VOLUME)
    with pytest.raises(UnknownTreeError):
        async with world.acme.hold(VOLUME, "trc_1"):
            pytest.fail("there is none")
    with pytest.raises(UnknownTreeError):
        await upload(world.acme, VOLUME, a=b"1")
    made = await world.acme.create_volume("shared")
    assert (made.name, made.version, made.bytes_count) == (VOLUME, 0, 0)
    with pytest.raises(InputError, match="already"):
        await world.acme_elsewhere.create_volume("shared")
    await upload(world.acme_elsewhere, VOLUME, a=b"12")
    [listed] = await world.acme.all("volume")
    assert (listed.name, listed.version, listed.bytes_count, listed.entry_count) == (VOLUME, 1, 2, 1)
    await world.acme_elsewhere.delete(VOLUME)
    assert await world.acme.all("volume") == []
    with pytest.raises(UnknownTreeError):
        await world.acme.delete(VOLUME)
    for slug in ("one", "two"):
        await world.acme.create_volume(slug)
    with pytest.raises(TreeFullError, match="2 volumes"):
        await world.acme.create_volume("three")


async def test_threads_are_listed_by_owner_and_bounded(world: World) -> None:
    for number in range(4):
        await upload(world.acme, TreeName(kind="thread", name=f"t{number}"), a=b"1")
    await upload(world.acme, TreeName(kind="thread", name="t0", owner="user:1"), a=b"1")
    assert [one.name.name for one in await world.acme.all("thread", "")] == ["t0", "t1", "t2", "t3"]
    assert [one.name.owner for one in await world.acme.all("thread")] == ["", "user:1", "", "", ""]
    with pytest.raises(TreeFullError, match="5 threads"):
        async with world.acme.hold(TreeName(kind="thread", name="t9"), "trc_1"):
            pytest.fail("there are too many")
    with pytest.raises(TreeFullError, match="5 threads"):
        await upload(world.acme_elsewhere, TreeName(kind="thread", name="t9"), a=b"1")
    await upload(world.second.trees.of("other"), THREAD, a=b"1")


async def test_an_organisation_has_its_bytes_and_what_is_removed_is_free(world: World) -> None:
    part = os.urandom(BLOB_BYTES_MAX)
    for number in range(4):
        await upload(world.acme, TreeName(kind="thread", name=f"t{number}"), a=part)
    full = TreeName(kind="thread", name="t4")
    with pytest.raises(TreeFullError, match="bytes in all"):
        await upload(world.acme, full, a=part, b=b"x")
    assert len((await world.acme.snapshot(full)).tree) == 0
    await world.acme.delete(TreeName(kind="thread", name="t0"))
    await upload(world.acme, full, a=part, b=b"x")
    await upload(world.acme, full, b=b"")  # and smaller it may always become


async def test_what_is_stored_and_not_committed_counts_until_it_is_removed(world: World) -> None:
    part = os.urandom(BLOB_BYTES_MAX)

    async def abandon(count: int) -> None:
        for _ in range(count):
            await put(world.acme.writer(THREAD), "never committed", part)

    with pytest.raises(TreeFullError):
        await abandon(20)
    world.clock.now += PENDING_S + 1
    await world.sweep()
    await abandon(1)


async def test_a_blob_of_which_little_is_left_counts_whole(world: World) -> None:
    """Or small files would fill the store while the organisation has next to none."""
    kept = 0

    async def keep_little() -> None:
        nonlocal kept
        while kept < 20:
            await upload(world.acme, THREAD, **{f"f{kept}": b"x", "large": os.urandom(BLOB_BYTES_MAX - 10)})
            await upload(world.acme, THREAD, large=b"")
            kept += 1

    with pytest.raises(TreeFullError):
        await keep_little()
    assert kept > 5


async def test_what_is_superseded_is_readable_for_an_hour_and_then_removed(world: World) -> None:
    old = await upload(world.acme, THREAD, a=b"1" * 10, b=b"1")
    tree_id = _tree_id(old)
    await upload(world.acme, THREAD, a=b"2" * 10, b=b"2")
    world.clock.now += GARBAGE_S - 1
    await world.sweep()
    assert await contents(await world.acme_elsewhere.snapshot(THREAD)) == {"a": b"2" * 10, "b": b"2"}
    assert await world.second.blobs.get(next(iter(old.tree.blobs))) == b"1" * 11
    world.clock.now += 2
    await world.sweep()
    assert len(await world.first.blobs.list(tree_id)) == 2
    assert await contents(await world.acme_elsewhere.snapshot(THREAD)) == {"a": b"2" * 10, "b": b"2"}


async def test_blobs_of_a_removed_tree_go_and_its_name_begins_anew(world: World) -> None:
    old = await upload(world.acme, THREAD, a=b"1")
    late = world.acme.writer(THREAD)
    await put(late, "b", os.urandom(BLOB_BYTES_MAX))
    await world.acme.delete(THREAD)
    with pytest.raises(UnknownTreeError):
        await world.acme.snapshot(THREAD)
    with pytest.raises(UnknownTreeError):
        await world.acme.commit(THREAD, late)
    new = await upload(world.acme, THREAD, a=b"2")
    assert _tree_id(new) != _tree_id(old)
    world.clock.now += PENDING_S + 1
    await world.sweep()
    assert await world.first.blobs.list(_tree_id(old)) == []
    assert await contents(await world.acme_elsewhere.snapshot(THREAD)) == {"a": b"2"}


async def test_a_commit_that_went_silent_is_removed_and_cannot_be_made_any_more(world: World) -> None:
    kept = await upload(world.acme, THREAD, a=b"1")
    late = world.acme.writer(THREAD)
    await put(late, "b", os.urandom(BLOB_BYTES_MAX))
    assert len(await world.first.blobs.list(_tree_id(kept))) == 3
    world.clock.now += PENDING_S - 1
    await world.sweep()
    assert len(await world.first.blobs.list(_tree_id(kept))) == 3
    world.clock.now += 2
    await world.sweep()
    assert len(await world.first.blobs.list(_tree_id(kept))) == 2
    with pytest.raises(TreeLostError):
        await world.acme.commit(THREAD, late)
    assert await contents(await world.acme_elsewhere.snapshot(THREAD)) == {"a": b"1"}


async def test_a_tree_of_more_blobs_than_one_listing_goes_whole(world: World) -> None:
    kept = await upload(world.acme, THREAD, a=b"1")
    prefix = _tree_id(kept)
    count = LISTED_MAX + 10 if isinstance(world.first.blobs, MemoryBlobs) else 10
    for number in range(count):
        await world.first.blobs.put(f"{prefix}00/{number}", b"x")
    await world.acme.delete(THREAD)
    world.clock.now += GARBAGE_S + 1
    await world.sweep()
    assert await world.first.blobs.list(prefix) == []


async def test_content_or_manifest_that_is_not_what_was_stored_is_noticed(world: World) -> None:
    snapshot = await upload(world.acme, THREAD, a=b"1" * 100)
    entry = snapshot.tree.find("a")
    assert entry is not None
    with pytest.raises(StorageDamagedError):
        [part async for part in snapshot.read(msgspec.structs.replace(entry, sha256=DAMAGED))]
    [name] = snapshot.tree.blobs
    await world.second.blobs.delete([name])
    fresh = StoredTrees(world.second.heads, world.second.blobs).of("acme")
    with pytest.raises(StorageDamagedError, match="missing"):
        await contents(await fresh.snapshot(THREAD))
    manifests = await world.second.blobs.list(_tree_id(snapshot))
    await world.second.blobs.delete(manifests)
    for name in manifests:
        await world.second.blobs.put(name, b"[]")
    fresh = StoredTrees(world.second.heads, world.second.blobs).of("acme")
    with pytest.raises(StorageDamagedError, match="damaged"):
        await fresh.snapshot(THREAD)


async def test_nothing_is_stored_for_a_change_that_changes_nothing(world: World) -> None:
    kept = await upload(world.acme, THREAD, a=b"1")
    async with world.acme.hold(THREAD, "trc_1") as held:
        assert (await held.commit(held.writer())).digest == kept.digest
    assert (await world.acme.state(THREAD)).version == 1


def _tree_id(snapshot: Snapshot) -> str:
    """As a prefix of its blobs."""
    return next(iter(snapshot.tree.blobs)).partition("/")[0] + "/"
