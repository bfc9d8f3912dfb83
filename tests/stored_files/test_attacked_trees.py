"""Trees that are made to break what is built on them: whoever has one can go on using it, and nobody else is touched."""

# ruff: noqa: E501  code of sandboxes, one line each

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from moonpool.core.errors import InputError
from moonpool.engine.stored_files.listing import DishonestGuestError, read_changes
from moonpool.engine.stored_files.model import Room, choose
from moonpool.engine.stored_files.transfers import _ChangeSink  # pyright: ignore[reportPrivateUsage]
from moonpool.features.storage.model import TreeName
from moonpool.features.storage.recorded_files import RecordedFiles
from moonpool_wire.limits import TREE_ENTRIES_MAX
from stored_files.executions import in_data, in_workspace, new_volume
from stored_files.memory_trees import MemoryWriter
from stored_files.test_hostile_guests import REPLACE

if TYPE_CHECKING:
    from pathlib import Path

    from stored_files.executions import Executions
    from stored_files.memory_trees import MemoryTree

pytestmark = [pytest.mark.anyio, pytest.mark.req("F-022")]
TOO_LONG = "/".join(["y" * 200] * 20) + "/" + "q" * 70  # a path of 4090 bytes, which the Files API takes
DEEP = ["/".join([str(number), *["x"] * 60]) for number in range(400)]  # 24,000 folders that nobody names


@pytest.mark.claim("C-STO-5")
async def test_a_path_that_is_too_long_for_a_sandbox_is_left_out_of_it(
    executions: Executions, thread: MemoryTree
) -> None:
    await thread.put({TOO_LONG: b"long", "f": b"1"})
    envelope = await executions.execute("import os; os.remove('f'); open('g', 'w').write('2')", thread)
    assert envelope.error is None
    assert "1 file of the thread (4 bytes) did not fit" in str(envelope.note)
    assert thread.files == {TOO_LONG: b"long", "g": b"2"}
    volume = new_volume()
    await volume.put({TOO_LONG: b"long", "f": b"1"})
    code = "import os; result = os.listdir('/data/vol')"
    assert await executions.run(code, in_data(volume, writable=False)) == ["f"]


@pytest.mark.claim("C-STO-5")
async def test_folders_that_are_only_implied_take_room_as_well(executions: Executions, thread: MemoryTree) -> None:
    await thread.put(dict.fromkeys(DEEP[:300], b""))
    room = Room(1 << 30, 12_288, 1 << 30)
    choice = choose(in_workspace(thread), room)
    assert len(choice.entries) == 12_288 // 61
    assert room.entry_count == 12_288 - 61 * len(choice.entries)
    result = await executions.run("import os; open('new', 'w').close(); result = len(os.listdir()) > 150", thread)
    assert result is True
    assert set(thread.files) == {*DEEP[:300], "new"}


@pytest.mark.claim("C-STO-5")
async def test_folders_that_code_nests_too_deep_are_skipped_and_the_rest_is_kept(
    executions: Executions, thread: MemoryTree
) -> None:
    code = """
    import os
    open('plain', 'w').write('kept')
    for _ in range(20):
        os.mkdir('z' * 200); os.chdir('z' * 200)
    open('f' * 70, 'w').write('x')
    """
    envelope = await executions.execute(code, thread)
    assert envelope.error is None
    assert "could not be stored" in str(envelope.note)
    assert thread.files == {"plain": b"kept"}
    assert await executions.run("import os; result = 'plain' in os.listdir()", thread) is True


@pytest.mark.claim("C-STO-5")
async def test_more_folders_than_fit_are_an_error_that_says_what_to_remove(
    executions: Executions, thread: MemoryTree
) -> None:
    writer = thread.writer()
    for number in range(13_000):
        writer.folder(f"d{number}")
    await thread.commit(writer)
    envelope = await executions.execute("result = 1", thread)
    assert envelope.error is not None
    assert (envelope.error.type, envelope.error.retryable) == ("StorageFull", False)
    assert "the thread has more folders than fit into a sandbox; remove some" in envelope.error.message
    writer = thread.writer()
    for number in range(2_000):
        writer.remove(f"d{number}")
    await thread.commit(writer)  # as the Files API does it
    assert await executions.run("result = 1", thread) == 1


async def test_a_file_that_is_named_like_one_of_ours_stays(executions: Executions, thread: MemoryTree) -> None:
    await thread.put({".moonpool-mine": b"1", ".moonpool-folder/f": b"2"})
    await executions.run("open('.moonpool-mine', 'a').write('+')", thread)
    assert thread.files == {".moonpool-mine": b"1+", ".moonpool-folder/f": b"2"}


@pytest.mark.claim("C-STO-4")
@pytest.mark.parametrize("path", [".moonpool", ".moonpool/packages.json"])
async def test_no_upload_forges_what_the_host_remembers_of_a_thread(path: str) -> None:
    never_asked: Any = None
    files = RecordedFiles(trees=never_asked, journal=never_asked, principal="key:1")
    with pytest.raises(InputError, match="Moonpool's own folder"):
        await files.check_place(TreeName(kind="thread", name="t1"), path)


WRITES_OUTSIDE = {
    "honest": """
import os
os.makedirs('/data/vol/mine', exist_ok=True); os.makedirs('/data/vol/other', exist_ok=True)
open('/data/vol/mine/f', 'w').write('after'); open('/data/vol/other/f', 'w').write('after'); open('/data/vol/top', 'w').write('after')
""",
    "lying": REPLACE.replace(
        "PLAY",
        "put(['file', 'mine/f', 420, 1, 5], ['file', 'other/f', 420, 1, 5], ['file', 'top', 420, 1, 5], contents=[b'after'] * 3)",
    ),
    "in a link's place": REPLACE.replace("PLAY", "put(['file', 'mine/f', 420, 1, 5], ['link', 'other', 420, 1, 'mine'], contents=[b'after'])"),
    "with an empty list of folders": REPLACE.replace("PLAY", "put(['file', 'mine/f', 420, 1, 5], ['folder', 'other/new', 420, 1, 0], contents=[b'after'])"),
}  # fmt: skip


@pytest.mark.claim("C-STO-4")
@pytest.mark.parametrize("how", WRITES_OUTSIDE)
async def test_beside_its_sub_paths_code_changes_nothing_of_a_volume(executions: Executions, how: str) -> None:
    volume = new_volume()
    await volume.put({"mine/f": b"before", "other/f": b"before", "top": b"before"})
    mount = in_data(volume, writable=True, sub_paths=("mine",))
    envelope = await executions.execute(WRITES_OUTSIDE[how], mount)
    assert envelope.error is None
    assert volume.files == {"mine/f": b"after", "other/f": b"before", "top": b"before"}
    assert volume.snapshot.tree.find("other/new") is None


@pytest.mark.claim("C-STO-2")
async def test_links_of_a_volume_are_shown_as_they_are_and_lead_the_host_nowhere(
    executions: Executions, tmp_path: Path
) -> None:
    secret = tmp_path / "of-the-host"
    secret.write_text("of the host", encoding="utf-8")
    secret.chmod(0o644)
    volume = new_volume()
    writer = MemoryWriter()
    writer.link("absolute", str(secret))
    writer.link("chain", "absolute")
    writer.link("up", "../" * 30 + str(secret).lstrip("/"))
    writer.link("folder", str(tmp_path))
    writer.link("beside", f"../../../../{executions.app.settings.backend}")
    await volume.commit(writer)
    code = f"""
    import os
    result = {{}}
    for name in os.listdir('/data/vol'):
        path = '/data/vol/' + name
        try: content = open(path + ('/{secret.name}' if name == 'folder' else '')).read()
        except OSError as error: content = type(error).__name__
        result[name] = [os.path.islink(path), content]
    """
    found: dict[str, Any] = await executions.run(code, in_data(volume, writable=False))
    assert set(found) == {"absolute", "chain", "up", "folder", "beside"}
    assert all(one == [True, "FileNotFoundError"] for one in found.values())


async def test_a_list_with_more_folders_than_there_may_be_is_a_lie_found_early() -> None:
    listed = json.dumps({"put": [["file", path, 420, 1, 0] for path in DEEP], "removed": []}).encode()
    with pytest.raises(DishonestGuestError, match="more folders"):
        read_changes(listed, brought=(), bytes_max=1)


@pytest.mark.claim("C-STO-6")
async def test_others_are_served_while_a_long_list_is_read(thread: MemoryTree) -> None:
    rows = [["file", f"{'folder/' * 60}{number}", 420, 1, 0] for number in range(TREE_ENTRIES_MAX - 100)]
    listed = json.dumps({"put": rows, "removed": []}).encode()
    sink = _ChangeSink(in_workspace(thread), MemoryWriter(), (), (), 1)
    turns = 0

    async def another() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    neighbour = asyncio.create_task(another())
    try:
        await sink.take(len(listed).to_bytes(4, "big") + listed)
    finally:
        neighbour.cancel()
    sink.check_complete()
    assert sink.count == len(rows)
    assert turns >= len(rows) // 200  # one at least for each part of the list
