"""One file in, one file out: whole or not at all, within its bounds, on record."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
from typing import TYPE_CHECKING

import anyio
import pytest

from files.moving import USED_BYTES, Workbench, source
from moonpool.engine.files.errors import (
    DiskQuotaError,
    FileInaccessibleError,
    FileMissingError,
    FileTooLargeError,
    FileTransferError,
    NameRefusedError,
    NotARegularFileError,
    PathOutsideError,
    TargetExistsError,
    TransferTimeoutError,
    refusal,
)
from moonpool_guest.files.refusals import refusal_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 3_000_000])
async def test_a_file_comes_back_as_it_went_in(bench: Workbench, size: int) -> None:
    data = os.urandom(size)
    receipt = await bench.put("in/side.bin", data)
    assert (receipt.size, receipt.sha256) == (size, hashlib.sha256(data).hexdigest())
    assert await bench.run("import hashlib; result = hashlib.sha256(open('in/side.bin','rb').read()).hexdigest()") == (
        receipt.sha256
    )
    assert await bench.get("in/side.bin") == data


async def test_files_go_to_three_places_and_are_made_with_their_folders(bench: Workbench) -> None:
    for path in ("a/b/c", "/workspace/d", "/home/user/e/f", "/tmp/g"):
        await bench.put(path, b"x")
    assert await bench.leftovers() == [
        "/home/user/e", "/home/user/e/f", "/tmp/g", "/workspace/a", "/workspace/a/b", "/workspace/a/b/c", "/workspace/d"
    ]  # fmt: skip


async def test_mode_is_kept_without_setuid(bench: Workbench) -> None:
    await bench.put("run.sh", b"#!/bin/sh\necho ran", mode=0o6755)
    assert await bench.run("import os, subprocess; result = [os.stat('run.sh').st_mode & 0o7777]") == [0o755]


async def test_a_file_that_is_there_is_replaced_only_when_asked(bench: Workbench) -> None:
    await bench.put("note", b"first")
    with pytest.raises(TargetExistsError):
        await bench.put("note", b"second")
    assert await bench.get("note") == b"first"
    await bench.put("note", b"third", replace=True)
    assert await bench.get("note") == b"third"
    assert await bench.leftovers() == ["/workspace/note"]


async def test_variables_outlive_transfers_and_their_modules_do_not_shadow(bench: Workbench) -> None:
    await bench.run("x = 1; open('tarfile.py', 'w').write('1/0'); open('zipfile.py', 'w').write('1/0')")
    await bench.archive()
    await bench.put("y", b"2")
    assert await bench.run("result = [x, open('y').read()]") == [1, "2"]


@pytest.mark.parametrize(
    ("path", "error"),
    [
        pytest.param("/etc/passwd", PathOutsideError, id="absolute elsewhere"),
        pytest.param("/workspacex/a", PathOutsideError, id="a longer name of a place"),
        pytest.param("../etc/passwd", PathOutsideError, id="up"),
        pytest.param("a/../../b", PathOutsideError, id="up in the middle"),
        pytest.param("a\0b", NameRefusedError, id="NUL"),
        pytest.param("x" * 256, NameRefusedError, id="long name"),
        pytest.param("x/" * 2100, NameRefusedError, id="long path"),
        pytest.param("\udcff", NameRefusedError, id="lone surrogate"),
        pytest.param("missing", FileMissingError, id="missing"),
        pytest.param(".", NotARegularFileError, id="the place itself"),
        pytest.param("/wrappers/current", PathOutsideError, id="wrappers"),
        pytest.param("servers/x", NotARegularFileError, id="through the wrappers' link"),
        pytest.param("/proc/1/root/etc/hostname", PathOutsideError, id="through proc"),
    ],
)
@pytest.mark.req("F-022")
async def test_paths_that_are_no_files_are_refused_by_name(
    bench: Workbench, path: str, error: type[FileTransferError]
) -> None:
    with pytest.raises(error):
        await bench.get(path)
    assert await bench.run("result = 1") == 1


@pytest.mark.parametrize(
    ("make", "error"),
    [
        pytest.param("os.mkfifo('it')", NotARegularFileError, id="fifo"),
        pytest.param("os.mkdir('it')", NotARegularFileError, id="folder"),
        pytest.param("import socket; socket.socket(socket.AF_UNIX).bind('it')", NotARegularFileError, id="socket"),
        pytest.param("os.symlink('/etc/hostname', 'it')", NotARegularFileError, id="link to a file"),
        pytest.param("os.symlink('/dev/zero', 'it')", NotARegularFileError, id="link to a device"),
        pytest.param("os.symlink('it', 'it')", NotARegularFileError, id="link to itself"),
        pytest.param("open('it', 'w').close(); os.chmod('it', 0)", FileInaccessibleError, id="no permission"),
        pytest.param("f = open('it', 'wb'); f.truncate(32 << 20); f.close()", FileTooLargeError, id="sparse"),
    ],
)
@pytest.mark.req("F-022")
async def test_what_stands_in_place_of_an_output_is_not_read(
    bench: Workbench, make: str, error: type[FileTransferError]
) -> None:
    await bench.run(f"import os; {make}")
    with anyio.fail_after(30), pytest.raises(error):
        await bench.get("it")
    assert await bench.run("result = 1") == 1


async def test_a_sparse_file_cannot_even_say_that_it_is_huge(bench: Workbench) -> None:
    code = """
        import os
        os.close(os.open('big', os.O_CREAT | os.O_WRONLY))
        try:
            os.truncate('big', 200 << 30)
        except OSError as error:
            result = error.errno
        """
    assert await bench.run(code) == 27  # EFBIG
    assert await bench.get("big") == b""


@pytest.mark.req("F-022", "C-039")
async def test_a_link_swapped_in_while_downloading_never_leads_out(bench: Workbench) -> None:
    """The code exchanges the file for a link to a file of the wall, as fast as it can, in a process of its own."""
    await bench.run("""
        import os, subprocess, sys
        open('mine', 'w').write('mine')
        os.symlink('/etc/passwd', 'theirs')
        swapping = subprocess.Popen([sys.executable, '-I', '-S', '-c', '''
        import os
        while True:
            os.link('mine', 'next'); os.rename('next', 'out')
            os.symlink('/etc/passwd', 'next'); os.rename('next', 'out')
        '''.replace(chr(10) + ' ' * 8, chr(10))])
    """)
    seen: set[object] = set()
    for _ in range(300):
        try:
            seen.add(await bench.get("out"))
        except (NotARegularFileError, FileMissingError) as refused:
            seen.add(type(refused))
    await bench.run("swapping.kill(); swapping.wait()")
    assert seen <= {b"mine", NotARegularFileError, FileMissingError}
    assert b"mine" in seen


@pytest.mark.req("F-022")
async def test_a_folder_swapped_for_a_link_while_uploading_is_never_left(bench: Workbench) -> None:
    await bench.run("""
        import os, subprocess, sys
        os.mkdir('/tmp/elsewhere'); os.mkdir('real')
        swapping = subprocess.Popen([sys.executable, '-I', '-S', '-c', '''
        import os
        while True:
            os.rename('real', 'away'); os.symlink('/tmp/elsewhere', 'real')
            os.unlink('real'); os.rename('away', 'real')
        '''.replace(chr(10) + ' ' * 8, chr(10))])
    """)
    for number in range(200):
        try:
            await bench.put(f"real/{number}", b"x")
        except (NotARegularFileError, FileMissingError, TargetExistsError, FileTransferError):
            pass
    assert await bench.run("swapping.kill(); swapping.wait(); result = os.listdir('/tmp/elsewhere')") == []


async def test_hard_links_are_files_like_others(bench: Workbench) -> None:
    await bench.run("import os; open('a', 'w').write('once'); os.link('a', 'b')")
    assert await bench.get("b") == b"once"


async def test_a_growing_file_is_cut_off_at_the_limit(bench: Workbench) -> None:
    await bench.run("""
        import subprocess, sys
        growing = subprocess.Popen([sys.executable, '-I', '-S', '-c', '''if True:
            f = open('log', 'wb', 0)
            print('on', flush=True)
            while f.tell() < 24 << 20:
                f.write(b'x' * 65536)
        '''], stdout=subprocess.PIPE)
        growing.stdout.readline()
    """)
    taken = bytearray()

    async def slowly(piece: bytes) -> None:
        taken.extend(piece)
        await asyncio.sleep(0)

    try:
        await bench.files.get("log", slowly)
    except FileTooLargeError:
        pass
    assert len(taken) <= bench.app.settings.file_bytes_max
    await bench.run("growing.kill(); growing.wait()")


async def test_more_than_may_be_sent_is_refused_and_leaves_nothing(bench: Workbench) -> None:
    with pytest.raises(FileTooLargeError, match="send less at a time, or raise file_bytes_max"):
        await bench.put("big", bytes(bench.app.settings.file_bytes_max + 1))
    assert await bench.leftovers() == []


async def test_what_is_too_large_is_told_with_the_setting_that_bounds_it(bench: Workbench) -> None:
    async def nowhere(_: bytes) -> None:
        pass

    await bench.run("""
        import os
        os.mkdir('d')
        for number in range(4):
            open(f'd/{number}', 'wb').truncate(30 << 20)  # holds nothing, and is sent as what it looks like
    """)
    with pytest.raises(FileTooLargeError, match="are sent; transfer less at a time, or raise file_bytes_max"):
        await bench.files.get("d/0", nowhere)
    with pytest.raises(FileTooLargeError, match="bytes; transfer less at a time, or raise disk_bytes_max"):
        await bench.files.archive("d", nowhere)


def test_the_sandboxs_own_bound_on_a_file_is_told_with_its_setting() -> None:
    told = refusal_of(OSError(errno.EFBIG, "File too large"))
    error = refusal("big", told.code, told.message)
    assert isinstance(error, FileTooLargeError)
    assert str(error) == "big: no file in the sandbox may be so large; make smaller files, or raise disk_bytes_max"


async def test_a_full_quota_is_said_and_leaves_nothing(bench: Workbench) -> None:
    await bench.run("open('ballast', 'wb').write(bytes(30 << 20))")
    used = await bench.run(USED_BYTES)
    with pytest.raises(DiskQuotaError):
        await bench.put("more/deep", os.urandom(4 << 20))
    assert await bench.leftovers() == ["/workspace/ballast"]
    assert await bench.run(USED_BYTES) == used


async def test_a_source_that_fails_midway_leaves_nothing(bench: Workbench) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield os.urandom(1 << 20)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await bench.files.put("half", failing())
    assert await bench.leftovers() == []
    assert [row["error_type"] for row in await bench.transfers()] == ["OSError"]


async def test_a_cancelled_upload_leaves_nothing_and_the_session_goes_on(bench: Workbench) -> None:
    await bench.run("x = 7")
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(8):
            yield os.urandom(65_536)
        begun.set()
        await asyncio.Event().wait()

    putting = asyncio.ensure_future(bench.files.put("half", endless()))
    with anyio.fail_after(20):
        await begun.wait()
        putting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await putting
    assert await bench.leftovers() == []
    assert await bench.run("result = x") == 7
    assert [row["error_type"] for row in await bench.transfers()] == ["Cancelled"]


@pytest.mark.parametrize("cancel", ["task", "scope"])
async def test_a_cancelled_download_lets_the_next_one_through(bench: Workbench, cancel: str) -> None:
    data = os.urandom(4 << 20)
    await bench.put("big", data)
    with anyio.CancelScope() as scope:

        async def give_up(_: bytes) -> None:
            if cancel == "scope":
                scope.cancel()
            else:
                task = asyncio.current_task()
                assert task is not None
                asyncio.get_running_loop().call_soon(task.cancel)
            await anyio.sleep(10)

        if cancel == "scope":
            await bench.files.get("big", give_up)
        else:
            with pytest.raises(asyncio.CancelledError):
                await asyncio.ensure_future(bench.files.get("big", give_up))
    with anyio.fail_after(20):
        assert await bench.get("big") == data


async def test_a_transfer_that_takes_too_long_is_given_up(bench: Workbench) -> None:
    async def stuck() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    await bench.run("x = 1")
    with anyio.fail_after(20), pytest.raises(TransferTimeoutError):
        await bench.with_limits(timeout_s=0.2).put("half", stuck())
    assert await bench.leftovers() == []
    assert await bench.run("result = x") == 1


@pytest.mark.parametrize("direction", ["in", "out"])
async def test_a_sandbox_killed_during_a_transfer_is_one_clear_error(bench: Workbench, direction: str) -> None:
    await bench.put("big", os.urandom(4 << 20))
    sandbox = bench.session._kernel.sandbox
    assert sandbox is not None

    async def dying() -> AsyncIterator[bytes]:
        for number in range(100):
            if number == 20:
                sandbox.kill()
            yield os.urandom(65_536)

    async def kill(_: bytes) -> None:
        sandbox.kill()

    moving = bench.files.put("other", dying()) if direction == "in" else bench.files.get("big", kill)
    with anyio.fail_after(20), pytest.raises(FileTransferError, match="the sandbox ended during the transfer"):
        await moving
    assert [row["error_type"] for row in await bench.transfers()] == ["", "transfer_failed"]
    with pytest.raises(FileTransferError, match="has ended, and its files with it"):
        await bench.get("big")
    assert await bench.leftovers() == []


async def test_transfers_and_executions_take_turns(bench: Workbench) -> None:
    async def put(number: int) -> None:
        await bench.put(f"file{number}", os.urandom(200_000))

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(put, number)
            tasks.start_soon(bench.run, f"open('by{number}', 'w').close()")
    assert len(await bench.names()) == 10


async def test_output_of_processes_that_run_on_is_kept_for_the_next_execution(bench: Workbench) -> None:
    await bench.run("""
        import os, subprocess, sys
        late = subprocess.Popen([sys.executable, '-I', '-S', '-c', '''if True:
            import os, time
            while not os.path.exists('go'):
                time.sleep(0.01)
            print('late words', flush=True)
            open('said', 'w').close()
        '''])
    """)
    await bench.put("go", b"")
    with anyio.fail_after(20):
        while "said" not in await bench.names():
            pass
    envelope = await bench.execute("late.wait()")
    assert "late words" in str(envelope.extras["stdout"])


async def test_every_transfer_is_on_record_and_none_with_contents(bench: Workbench) -> None:
    data = b"a secret of mine"
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    await bench.put("note", data)
    await bench.get("note")
    with pytest.raises(FileMissingError):
        await bench.get("other")
    rows = await bench.transfers()
    columns = ("direction", "what", "path", "bytes", "digest", "error_type")
    assert [tuple(row[name] for name in columns) for row in rows] == [
        ("in", "file", "note", 16, digest, ""),
        ("out", "file", "note", 16, digest, ""),
        ("out", "file", "other", 0, "", "file_missing"),
    ]  # fmt: skip
    assert "secret" not in str(rows)


async def test_folders_are_made_and_removed(bench: Workbench) -> None:
    await bench.files.make_folder("a/b/c")
    await bench.files.make_folder("a/b")
    await bench.put("a/b/c/d", b"")
    with pytest.raises(FileTransferError):
        await bench.files.delete("a")
    await bench.files.delete("a/b/c/d")
    await bench.files.delete("a", recursive=True)
    with pytest.raises(FileInaccessibleError):
        await bench.files.delete("/workspace", recursive=True)
    assert await bench.leftovers() == []


async def test_deleting_a_link_removes_the_link(bench: Workbench) -> None:
    await bench.run("import os; open('/tmp/kept', 'w').close(); os.symlink('/tmp', 'link')")
    await bench.files.delete("link", recursive=True)
    assert await bench.leftovers() == ["/tmp/kept"]


async def test_streams_may_come_in_crumbs(bench: Workbench) -> None:
    await bench.files.put("crumbs", source(b"", b"a", b"", b"bc", bytes(70_000), b""))
    assert await bench.get("crumbs") == b"abc" + bytes(70_000)
