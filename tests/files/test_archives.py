"""Archives: a tree out and in again, and everything that an archive may hold against whoever unpacks it."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import zipfile
from typing import Any

import anyio
import pytest

from files.moving import USED_BYTES, Workbench, member, source, tar_of
from moonpool.engine.files.errors import (
    ArchiveRefusedError,
    DiskQuotaError,
    FileTooLargeError,
    FileTransferError,
    TargetExistsError,
)

pytestmark = pytest.mark.anyio

TREE = """
import os
os.makedirs('src/deep/er'); os.makedirs('empty')
open('src/a.py', 'w').write('print(1)'); os.chmod('src/a.py', 0o755)
open('src/deep/er/b', 'wb').write(os.urandom(300_000))
os.link('src/a.py', 'src/same'); os.symlink('deep/er/b', 'src/inner'); os.symlink('../src', 'empty/up')
os.symlink('/etc', 'outer'); os.symlink('../../x', 'src/outer'); os.mkfifo('pipe')
open('näme ✓', 'w').close(); open(b'bytes-\\xff', 'w').close(); open('line\\nend', 'w').close()
open('n' * 255, 'w').close()
"""


LONG = "./d/" + "x" * 150


async def test_a_tree_comes_back_through_an_archive(bench: Workbench) -> None:
    await bench.run(TREE)
    await bench.run("import os; [os.utime(p, (9, 9), follow_symlinks=False) for p in ('src', 'empty', 'src/inner')]")
    receipt, tar = await bench.archive()
    assert receipt.skipped == 5  # outer, src/outer, pipe, servers, mcptools
    await bench.files.unpack("copy", source(tar))
    again, same = await bench.archive("copy")
    assert (again.skipped, same) == (0, tar), "the same files give the same bytes"
    code = """
        import os
        script = os.stat('copy/src/a.py')
        result = [script.st_nlink, script.st_mode & 0o777, os.readlink('copy/empty/up')]
        """
    assert await bench.run(code) == [2, 0o755, "../src"]


async def test_an_archive_of_a_full_disk_can_be_made(bench: Workbench) -> None:
    await bench.run("open('ballast', 'wb').write(bytes(31 << 20))")
    receipt, tar = await bench.archive()
    assert receipt.entries == 1
    assert len(tar) > 31 << 20


async def test_one_file_can_be_archived(bench: Workbench) -> None:
    await bench.put("a/b", b"x")
    _, tar = await bench.archive("a/b")
    with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
        assert opened.getnames() == ["b"]


@pytest.mark.parametrize("form", ["tar", "tar.gz", "zip"])
async def test_archives_of_common_tools_are_unpacked(bench: Workbench, form: str) -> None:
    members = (member("./", type=tarfile.DIRTYPE), member(LONG, b"long"), member("r/f", b"body", mode=0o6755))
    data = tar_of(*members)
    if form == "zip":
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(LONG, "long")
            archive.writestr("r/f", "body")
        data = file.getvalue()
    await bench.files.unpack(
        "/home/user/it",
        source(gzip.compress(data) if form == "tar.gz" else data),
        form="zip" if form == "zip" else "tar",
    )
    assert await bench.get("/home/user/it/r/f") == b"body"
    listing = await bench.files.list("/home/user/it", recursive=True)
    assert not any(entry.mode & 0o7000 for entry in listing.entries)


async def test_a_gnu_tar_with_long_names_is_unpacked(bench: Workbench) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
        info, content = member("x" * 200 + "/f", b"body")
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    await bench.files.unpack("it", source(file.getvalue()))
    assert await bench.get("it/" + "x" * 200 + "/f") == b"body"


FOLDER = member("d", type=tarfile.DIRTYPE)
REFUSED: dict[str, list[tuple[tarfile.TarInfo, bytes]]] = {
    "up": [member("../../evil", b"x")],
    "up in the middle": [member("d/../../evil", b"x")],
    "absolute": [member("/tmp/evil", b"x")],
    "link out": [member("l", type=tarfile.SYMTYPE, linkname="../../etc")],
    "absolute link": [member("l", type=tarfile.SYMTYPE, linkname="/etc/passwd")],
    "write through a link": [member("l", type=tarfile.SYMTYPE, linkname="d"), FOLDER, member("l/x", b"x")],
    "chain of links out": [
        member("a", type=tarfile.DIRTYPE),
        member("a/b", type=tarfile.SYMTYPE, linkname=".."),
        member("c", type=tarfile.SYMTYPE, linkname="a/b/.."),
    ],
    "hard link out": [member("h", type=tarfile.LNKTYPE, linkname="/etc/passwd")],
    "hard link up": [member("h", type=tarfile.LNKTYPE, linkname="../evil")],
    "hard link to what is not in it": [member("h", type=tarfile.LNKTYPE, linkname="servers")],
    "hard link to a link": [
        member("l", type=tarfile.SYMTYPE, linkname="d"),
        member("h", type=tarfile.LNKTYPE, linkname="l"),
    ],
    "device": [member("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
    "block device": [member("disk", type=tarfile.BLKTYPE)],
    "fifo": [member("p", type=tarfile.FIFOTYPE)],
    "twice": [member("a", b"1"), member("a", b"2")],
    "twice in other words": [member("a", b"1"), member("./a", b"2")],
    "a folder over a file": [member("a", b"1"), member("a", type=tarfile.DIRTYPE)],
    "a file below a file": [member("a", b"1"), member("a/b", b"2")],
    "long name": [member("n" * 256, b"x")],
    "deep": [member("d/" * 65 + "f", b"x")],
    "unknown type": [member("a", b"x", type=b"Z")],
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.req("F-022")
async def test_a_tar_that_holds_a_trick_is_refused_whole(bench: Workbench, name: str) -> None:
    tar = tar_of(member("good", b"x"), *REFUSED[name])
    with pytest.raises(ArchiveRefusedError):
        await bench.files.unpack(".", source(tar))
    assert await bench.leftovers() == []


def zip_of(name: str, content: bytes = b"x", **fields: Any) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("good", b"x")
        info = zipfile.ZipInfo("name")
        info.filename = name
        for field, value in fields.items():
            setattr(info, field, value)
        archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def encrypted() -> bytes:
    data = bytearray(zip_of("locked"))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.rfind(mark)
        data[place + at] |= 1
    return bytes(data)


def overlapping_zip(size: int, copies: int) -> bytes:
    """Many entries of the list that all point at the same few compressed bytes: the bomb that needs no nesting."""
    data = zip_of("z", bytes(size))
    at = data.rfind(b"PK\x01\x02")
    entry, end = data[at : data.rfind(b"PK\x05\x06")], data.rfind(b"PK\x05\x06")
    entries = b"".join(entry[:-1] + bytes([33 + number]) for number in range(copies))
    first = data[:at]
    directory = data[data.find(b"PK\x01\x02") : at] + entries
    count = (copies + 1).to_bytes(2, "little")
    tail = data[end : end + 8] + count + count + len(directory).to_bytes(4, "little") + data[end + 16 :]
    return first[: data.find(b"PK\x01\x02")] + directory + tail


ZIPS = {
    "up": lambda: zip_of("../../evil"),
    "absolute": lambda: zip_of("/tmp/evil"),
    "backslashes": lambda: zip_of("..\\..\\evil"),
    "link": lambda: zip_of("l", b"/etc/passwd", external_attr=(stat.S_IFLNK | 0o777) << 16),
    "device": lambda: zip_of("d", external_attr=(stat.S_IFCHR | 0o666) << 16),
    "encrypted": encrypted,
    "cut off": lambda: zip_of("a", os.urandom(5000))[:-40],
    "no zip": lambda: os.urandom(5000),
    "overlapping entries": lambda: overlapping_zip(4 << 20, 40),
}


@pytest.mark.parametrize("name", ZIPS)
@pytest.mark.req("F-022")
async def test_a_zip_that_holds_a_trick_is_refused_whole(bench: Workbench, name: str) -> None:
    with pytest.raises(ArchiveRefusedError):
        await bench.files.unpack(".", source(ZIPS[name]()), form="zip")
    assert await bench.leftovers() == []


@pytest.mark.filterwarnings("ignore:Duplicate name")
async def test_a_zip_with_a_name_twice_is_refused(bench: Workbench) -> None:
    with pytest.raises(ArchiveRefusedError, match="twice"):
        await bench.files.unpack(".", source(zip_of("good")), form="zip")


BOMBS = {
    "gzip of zeros": lambda: (gzip.compress(tar_of(member("z", bytes(31 << 20)))), "tar"),
    "zip of zeros": lambda: (zip_of("z", bytes(31 << 20)), "zip"),
    "more than the quota": lambda: (gzip.compress(tar_of(member("z", os.urandom(1 << 20) * 33)), 1), "tar"),
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.req("F-022")
async def test_a_bomb_is_refused_before_it_fills_the_disk(bench: Workbench, name: str) -> None:
    data, form = BOMBS[name]()
    used = await bench.run(USED_BYTES)
    with anyio.fail_after(60), pytest.raises(ArchiveRefusedError, match="expands to more"):
        await bench.files.unpack(".", source(data), form=form)  # pyright: ignore[reportArgumentType]
    assert await bench.leftovers() == []
    assert await bench.run(USED_BYTES) == used


@pytest.mark.slow
async def test_more_entries_than_the_sandbox_may_hold_leave_nothing(bench: Workbench) -> None:
    entries = tar_of(*(member(f"{number}", type=tarfile.DIRTYPE) for number in range(20_001)))
    with anyio.fail_after(60), pytest.raises((ArchiveRefusedError, DiskQuotaError)):
        await bench.files.unpack(".", source(gzip.compress(entries)))
    assert await bench.leftovers() == []


async def test_a_sparse_member_is_refused(bench: Workbench) -> None:
    info, content = member("s", b"x" * 512, pax_headers={"GNU.sparse.map": "0,1", "GNU.sparse.size": str(200 << 30)})
    with pytest.raises(ArchiveRefusedError, match="sparse"):
        await bench.files.unpack(".", source(tar_of((info, content))))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(os.urandom(10_000), id="noise"),
        pytest.param(tar_of(member("a", b"x" * 5000))[:2000], id="cut off"),
        pytest.param(gzip.compress(tar_of(member("a", os.urandom(50_000))))[:9000], id="gzip cut off"),
        pytest.param(gzip.compress(tar_of(member("a", b"x"))) * 2, id="two gzip streams"),
        pytest.param(b"BZh91AY&SY" + os.urandom(100), id="bzip2"),
        pytest.param(zip_of("a"), id="a zip that is called tar"),
    ],
)
async def test_what_is_no_tar_is_refused(bench: Workbench, data: bytes) -> None:
    with anyio.fail_after(20), pytest.raises(ArchiveRefusedError):
        await bench.files.unpack("it", source(data))
    assert await bench.leftovers() == []


async def test_unpacking_fills_folders_and_replaces_files_only_when_asked(bench: Workbench) -> None:
    await bench.put("d/old", b"old")
    await bench.put("d/same", b"old")
    tar = tar_of(FOLDER, member("d/same", b"new"), member("d/sub/more", b"new"))
    with pytest.raises(TargetExistsError, match="d/same"):
        await bench.files.unpack(".", source(tar))
    assert await bench.names() == ["d", "d/old", "d/same"]
    await bench.files.unpack(".", source(tar), replace=True)
    assert await bench.names() == ["d", "d/old", "d/same", "d/sub", "d/sub/more"]
    assert await bench.get("d/same") == b"new"


async def test_unpacking_never_goes_through_a_link_that_is_there(bench: Workbench) -> None:
    await bench.run("import os; os.symlink('/tmp', 'd')")
    with pytest.raises(FileTransferError):
        await bench.files.unpack(".", source(tar_of(member("d/x", b"x"))), replace=True)
    assert await bench.leftovers() == ["/workspace/d"]


@pytest.mark.req("F-022")
async def test_deep_and_wide_trees_do_not_hang(bench: Workbench) -> None:
    await bench.run("""
        import os
        os.makedirs('wide')
        for number in range(12_000): os.close(os.open(f'wide/{number}', os.O_CREAT))
        for _ in range(3000): os.mkdir('d'); os.chdir('d')
        os.chdir('/workspace')
    """)
    with anyio.fail_after(30):
        listing = await bench.files.list(".", recursive=True)
        assert listing.truncated
        assert len(listing.entries) <= 10_000
        with pytest.raises(FileTooLargeError, match="64 deep"):
            await bench.archive()
        receipt, _ = await bench.archive("wide")
        with pytest.raises(FileTransferError):
            await bench.files.delete("d", recursive=True)
    assert receipt.entries == 12_000


async def test_hostile_names_are_listed_escaped_or_as_they_are(bench: Workbench) -> None:
    await bench.run(r"""
        for name in [b'\xff\xfe', b'line\nend', b'\x1b[31mred', b'n' * 255, 'ünïcode'.encode(), b'"quoted\\']:
            open(name, 'w').close()
    """)
    listing = await bench.files.list()
    entries = {entry.path: entry.escaped for entry in listing.entries if entry.kind == "file"}
    assert entries == {
        "\\xff\\xfe": True,
        "line\nend": False,
        "\x1b[31mred": False,
        "n" * 255: False,
        "ünïcode": False,
        '"quoted\\': False,
    }
    assert await bench.get("line\nend") == b""


async def test_folders_that_cannot_be_read_are_counted_not_fatal(bench: Workbench) -> None:
    await bench.run(
        "import os; os.mkdir('shut'); open('shut/x', 'w').close(); os.chmod('shut', 0); open('f', 'w').close()"
    )
    assert await bench.names() == ["f", "shut"]
    receipt, _ = await bench.archive()
    assert (receipt.entries, receipt.skipped) == (2, 3)
