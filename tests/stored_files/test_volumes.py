"""Volumes: written by one execution, or only read through the slot."""

# ruff: noqa: E501  code of sandboxes, one line each

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from moonpool.engine.stored_files.volumes import ENTRY_BYTES, ShownVolumes
from stored_files.executions import in_data, new_volume

if TYPE_CHECKING:
    from pathlib import Path

    from stored_files.executions import Executions
    from stored_files.memory_trees import MemoryTree

pytestmark = pytest.mark.anyio


@pytest.mark.req("J-036")
async def test_a_volume_that_is_written_is_committed_beside_the_thread(
    executions: Executions, thread: MemoryTree
) -> None:
    volume = new_volume()
    await volume.put({"in/a": b"1", "b": b"2"})
    code = "import os, shutil; shutil.copy('/data/vol/in/a', 'a'); os.remove('/data/vol/b'); open('/data/vol/new', 'w').write('3')"
    await executions.run(code, thread, in_data(volume, writable=True))
    assert volume.files == {"in/a": b"1", "new": b"3"}
    assert thread.files == {"a": b"1"}


@pytest.mark.claim("C-STO-3")
@pytest.mark.req("J-036")
@pytest.mark.parametrize("language", ["python", "bash"])
async def test_a_volume_that_is_only_read_cannot_be_changed(executions: Executions, language: str) -> None:
    volume = new_volume()
    await volume.put({"in/a": b"text", "run.sh": b"#!/bin/sh\necho ran"}, mode=0o700)
    if language == "bash":
        code = "cat /data/vol/in/a; /data/vol/run.sh; ls /data/vol; (echo x > /data/vol/in/a) 2>&1 | tail -c 22; rm -f /data/vol/in/a 2>/dev/null || echo kept"
        out = await executions.run(code, in_data(volume, writable=False), language="bash")
        assert out == "textran\nin\nrun.sh\nRead-only file system\nkept\n"
    else:
        code = """
        import errno, os
        result = [open('/data/vol/in/a').read()]
        for attempt in (lambda: open('/data/vol/in/a', 'a'), lambda: open('/data/vol/x', 'w'), lambda: os.remove('/data/vol/in/a'),
                        lambda: os.chmod('/data/vol/in/a', 0o777), lambda: os.utime('/data/vol/in/a')):
            try: attempt()
            except OSError as error: result.append('refused' if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) else str(error))
        """
        assert await executions.run(code, in_data(volume, writable=False)) == ["text", *["refused"] * 5]
    assert volume.snapshot.version == 1


@pytest.mark.claim("C-STO-1", "C-STO-3")
async def test_two_executions_share_a_checkout_and_one_sees_no_other_volume(executions: Executions) -> None:
    one, two = new_volume("one"), new_volume("two")
    await one.put({"f": b"1"})
    await two.put({"f": b"2"})
    look = "import os; result = [sorted(os.listdir('/data')), os.path.exists('/wrappers/volumes') and sorted(os.listdir('/wrappers/volumes'))]"
    assert await executions.run(look, in_data(one, writable=False)) == [["one"], ["one"]]
    assert (
        await executions.run(look, in_data(one, writable=False), in_data(two, writable=False)) == [["one", "two"]] * 2
    )
    assert await executions.run(look) == [[], False]


@pytest.mark.req("F-022")
async def test_links_of_a_volume_lead_nowhere_on_the_host(executions: Executions, tmp_path: Path) -> None:
    volume = new_volume()
    writer = volume.writer()
    secret = tmp_path / "secret"
    secret.write_text("of the host", encoding="utf-8")
    for name, target in (("abs", str(secret)), ("up", "../" * 20 + str(secret)), ("dir", str(tmp_path))):
        writer.link(name, target)
    await volume.commit(writer)
    code = "import os; result = [[os.readlink(f'/data/vol/{n}'), os.path.exists(f'/data/vol/{n}')] for n in ('abs', 'up', 'dir')]"
    found = await executions.run(code, in_data(volume, writable=False))
    assert [exists for _, exists in found] == [False] * 3
    assert found[0][0] == str(secret)
    assert secret.read_text(encoding="utf-8") == "of the host"


async def test_sub_paths_narrow_what_is_brought_in(executions: Executions) -> None:
    volume = new_volume()
    await volume.put({"a/x": b"1", "a/y/z": b"2", "ab/x": b"3", "c": b"4"})
    code = "import os; result = sorted(os.path.join(d, f) for d, _, fs in os.walk('/data/vol/', followlinks=True) for f in fs)"
    for writable in (False, True):
        shown = await executions.run(code, in_data(volume, writable=writable, sub_paths=("a/y", "c")))
        assert shown == ["/data/vol/a/y/z", "/data/vol/c"]
    await executions.run(
        "import shutil; shutil.rmtree('/data/vol/a')", in_data(volume, writable=True, sub_paths=("a/y",))
    )
    assert volume.files == {"ab/x": b"3", "a/x": b"1", "c": b"4"}
    replace = "import shutil; shutil.rmtree('/data/vol/a'); open('/data/vol/a', 'w').write('instead')"
    await volume.put({"a/y/z": b"2"})
    envelope = await executions.execute(replace, in_data(volume, writable=True, sub_paths=("a/y",)))
    assert envelope.note == "1 file or name could not be stored and was not kept"
    assert volume.files == {"ab/x": b"3", "a/x": b"1", "c": b"4"}


async def test_checkouts_are_bounded_and_the_oldest_goes(executions: Executions) -> None:
    executions.volumes._bytes_max = 3 * 1024**2
    volumes = [new_volume(f"v{number}") for number in range(3)]
    for volume in volumes:
        await volume.put({"f": os.urandom(1024**2 + 1)})
        await executions.run(
            f"result = open('/data/{volume.name.name}/f', 'rb').read(1) is None", in_data(volume, writable=False)
        )
    left = [one for one in executions.volumes._folder.iterdir() if not one.name.startswith(".")]
    assert len(left) == 2
    await executions.run("open('/data/v0/f').close()", in_data(volumes[0], writable=False))


@pytest.mark.claim("C-STO-6")
async def test_checkouts_of_empty_files_are_bounded_too(tmp_path: Path) -> None:
    volume, shown = new_volume(), ShownVolumes(tmp_path / "shown", bytes_max=100 * ENTRY_BYTES)
    await volume.put({f"{folder}/{number}": b"" for folder in "abcdef" for number in range(39)})

    class Slot:
        """As much of a sandbox as is asked here."""

        def show_volume(self, slug: str, folder: Path) -> None:
            assert slug == "vol"
            assert folder.is_dir()

    sandbox: Any = Slot()
    for folder in "abcdef":
        await shown.show(sandbox, in_data(volume, writable=False, sub_paths=(folder,)))

    assert len([*(tmp_path / "shown").rglob("*/*/*")]) == 2 * 39
