"""What arrives on this machine: published whole or not at all, under names of our choice, never outside its folder."""

from __future__ import annotations

import asyncio
import io
import os
import stat
import tarfile
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from files.moving import Workbench, member, tar_of
from moonpool.engine.files.archive_links import ArchiveLinks
from moonpool.engine.files.errors import ArchiveRefusedError
from moonpool.engine.files.extraction import landing_tree, unpack_here
from moonpool.engine.files.local_files import LocalFileError, landing, landing_path, local_source, plain_name
from moonpool.engine.files.tar_reader import TarReader
from moonpool_wire.filenames import NameFault, link_stays_inside, member_parts, split_place

if TYPE_CHECKING:
    from collections.abc import Coroutine


@pytest.mark.anyio
async def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "out"
    async with landing(target, force=False) as file:
        await file.write(b"x" * 2_000_000)
        assert not target.exists()
        await file.write(b"y")
    assert target.read_bytes() == b"x" * 2_000_000 + b"y"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.anyio
@pytest.mark.parametrize("ending", [OSError, KeyboardInterrupt, LocalFileError])
async def test_a_file_that_is_not_complete_never_appears(tmp_path: Path, ending: type[BaseException]) -> None:
    async def land() -> None:
        async with landing(tmp_path / "out", force=True) as file:
            await file.write(b"x" * 2_000_000)
            raise ending

    with pytest.raises((ending, LocalFileError)):
        await land()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.anyio
async def test_a_cancelled_landing_leaves_nothing(tmp_path: Path) -> None:
    with anyio.move_on_after(0.05):
        async with landing(tmp_path / "out", force=True) as file:
            await file.write(b"x" * 2_000_000)
            await anyio.sleep_forever()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.anyio
async def test_what_is_there_is_replaced_only_when_asked(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("old", encoding="utf-8")
    with pytest.raises(LocalFileError, match="is there already"):
        async with landing(target, force=False):
            pass
    async with landing(target, force=True) as file:
        await file.write(b"new")
    assert target.read_bytes() == b"new"


@pytest.mark.anyio
async def test_a_pipe_or_device_is_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "out")
    with pytest.raises(LocalFileError, match="which is never replaced"):
        async with landing(tmp_path / "out", force=True):
            pass
    assert [path.name for path in tmp_path.iterdir() if path.is_fifo()] == ["out"]


@pytest.mark.anyio
async def test_what_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "out"

    async def land() -> None:
        async with landing(target, force=False) as file:
            await file.write(b"new")
            target.write_text("theirs", encoding="utf-8")

    with pytest.raises(LocalFileError, match="is there already"):
        await land()
    assert target.read_text(encoding="utf-8") == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.anyio
async def test_a_link_in_place_of_the_target_is_replaced_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept", encoding="utf-8")
    (tmp_path / "out").symlink_to("kept")
    async with landing(tmp_path / "out", force=True) as file:
        await file.write(b"new")
    assert (tmp_path / "kept").read_text(encoding="utf-8") == "kept"
    assert (tmp_path / "out").read_bytes() == b"new"


@pytest.mark.anyio
async def test_only_regular_files_are_sent(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "missing"):
        with anyio.fail_after(30), pytest.raises(LocalFileError):
            async with local_source(path):
                pass


@pytest.mark.parametrize("name", ["", ".", "..", "a\nb", "\x1b[2J", "a\u202eb", "\udcff", "a\0b"])
def test_names_that_act_on_people_or_terminals_are_not_given_to_files(name: str) -> None:
    with pytest.raises(LocalFileError):
        plain_name(name)


def test_a_download_takes_its_own_name_in_a_folder(tmp_path: Path) -> None:
    assert landing_path(tmp_path, "a/b/c.txt") == tmp_path / "c.txt"
    assert landing_path(tmp_path / "new", "a/b/c.txt") == tmp_path / "new"


def tree_of(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): (os.readlink(path) if path.is_symlink() else "") or (  # noqa: PTH115
            path.read_text(encoding="utf-8") if path.is_file() else "/"
        )
        for path in sorted(folder.rglob("*"))
    }  # fmt: skip


@pytest.mark.anyio
async def test_a_folder_of_a_sandbox_becomes_a_folder_here(bench: Workbench, tmp_path: Path) -> None:
    await bench.run(r"""
        import os
        os.makedirs('d/e'); open('d/e/f', 'w').write('body'); os.chmod('d/e/f', 0o6711)
        os.symlink('e/f', 'd/link'); os.link('d/e/f', 'd/same'); os.symlink('/etc', 'd/out')
        open('d/' + 'n' * 200 + ' ✓', 'w').write('long')
    """)
    async with landing_tree(tmp_path / "here") as file:
        await bench.files.archive("d", file.write)
    assert tree_of(tmp_path / "here") == {
        "e": "/", "e/f": "body", "link": "e/f", "same": "body", "n" * 200 + " ✓": "long"
    }  # fmt: skip
    assert stat.S_IMODE((tmp_path / "here/e/f").stat().st_mode) & 0o7111 == 0o111
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


FOLDER = member("d", type=tarfile.DIRTYPE)
TRICKS: dict[str, list[Any]] = {
    "up": [member("../evil", b"x")],
    "absolute": [member("/tmp/moonpool-evil", b"x")],
    "link out": [member("l", type=tarfile.SYMTYPE, linkname="../../etc")],
    "absolute link": [member("l", type=tarfile.SYMTYPE, linkname="/etc")],
    "write through a link": [member("l", type=tarfile.SYMTYPE, linkname="d"), FOLDER, member("l/x", b"x")],
    "chain of links": [
        member("a", type=tarfile.DIRTYPE),
        member("a/b", type=tarfile.SYMTYPE, linkname=".."),
        member("c", type=tarfile.SYMTYPE, linkname="a/b/.."),
    ],
    "hard link out": [member("h", type=tarfile.LNKTYPE, linkname="/etc/hostname")],
    "hard link to a link": [
        FOLDER,
        member("l", type=tarfile.SYMTYPE, linkname="d"),
        member("h", type=tarfile.LNKTYPE, linkname="l"),
    ],
    "device": [member("null", type=tarfile.CHRTYPE)],
    "fifo": [member("p", type=tarfile.FIFOTYPE)],
    "twice": [member("a", b"1"), member("a", b"2")],
    "no folder": [member("a/b", b"1")],
    "newline": [member("a\nb", b"1")],
    "escape": [member("\x1b[2J", b"1")],
    "no text": [member("\udcff", b"1")],
    "deep": [*(member("d/" * depth + "d", type=tarfile.DIRTYPE) for depth in range(65))],
    "unknown type": [member("a", b"x", type=b"Z")],
    "unknown record": [member("a", b"x", pax_headers={"GNU.sparse.major": "1"})],
    "large record": [member("a", b"x", pax_headers={"path": "x" * 70_000})],
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", TRICKS)
@pytest.mark.req("F-022")
async def test_a_tar_out_of_a_sandbox_that_holds_a_trick_makes_nothing(tmp_path: Path, name: str) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(tar_of(member("good", b"x"), *TRICKS[name]))
    with pytest.raises(ArchiveRefusedError):
        await unpack_here(archive, tmp_path / "here")
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar"]


@pytest.mark.anyio
async def test_a_folder_that_is_there_is_not_filled(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar_of(member("a", b"x")))
    with pytest.raises(LocalFileError, match="is there already"):
        await unpack_here(tmp_path / "a.tar", tmp_path)


def link(name: str, text: str) -> Any:
    return member(name, type=tarfile.SYMTYPE, linkname=text)


def chain(length: int, *, backwards: bool = False) -> list[Any]:
    """Links that lead through each other to `end`; the first passes all others."""
    texts = [f"l{number + 1}" for number in range(length - 1)] + ["end"]
    links = [link(f"l{number}", text) for number, text in enumerate(texts)]
    return links[::-1] if backwards else links


@pytest.mark.anyio
@pytest.mark.parametrize("backwards", [False, True])
async def test_a_link_may_pass_as_many_others_as_the_kernel_lets_it(tmp_path: Path, backwards: bool) -> None:
    (tmp_path / "a.tar").write_bytes(tar_of(member("end", b"body"), *chain(40, backwards=backwards)))
    assert await unpack_here(tmp_path / "a.tar", tmp_path / "here") == 41
    assert (tmp_path / "here/l0").read_bytes() == b"body"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "links",
    [
        pytest.param(chain(41), id="41"),
        pytest.param(chain(41, backwards=True), id="41 backwards"),
        pytest.param(chain(1500), id="1,500"),
        pytest.param([*chain(900), *(link(f"m{number}", "l0") for number in range(16_000))], id="16,900"),
        pytest.param(
            [link("l0", "end"), *(link(f"l{n}", f"l{n - 1}/../l{n - 1}") for n in range(1, 64))], id="doubling"
        ),
        pytest.param([link("a", "b"), link("b", "a")], id="ring"),
        pytest.param([link("a", "no/../" + "a/" * 2000)], id="itself"),
    ],
)  # fmt: skip
async def test_links_that_lead_through_too_many_others_are_refused(tmp_path: Path, links: list[Any]) -> None:
    (tmp_path / "a.tar").write_bytes(tar_of(member("end", type=tarfile.DIRTYPE), *links))
    with anyio.fail_after(20), pytest.raises(ArchiveRefusedError, match="a link through too many others"):
        await unpack_here(tmp_path / "a.tar", tmp_path / "here")
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar"]


@pytest.mark.anyio
async def test_a_link_to_what_is_not_there_may_lead_on(tmp_path: Path) -> None:
    links = [link("a", "no/such/../../b"), link("b", "missing"), link("c", "missing/../no")]
    (tmp_path / "a.tar").write_bytes(tar_of(*links))
    await unpack_here(tmp_path / "a.tar", tmp_path / "here")
    assert tree_of(tmp_path / "here") == {"a": "no/such/../../b", "b": "missing", "c": "missing/../no"}


_name = st.sampled_from(["a", "b", "c"])


@given(
    st.dictionaries(_name, st.text(alphabet="abc/.", min_size=1, max_size=12), min_size=1),
    st.sampled_from(["a", "b", "c", "d"]),
)
def test_a_link_that_is_accepted_leads_nowhere_else_on_a_disk(links: dict[str, str], folder: str) -> None:
    """Each link stands in a folder two levels down, beside the others; the kernel's word is compared."""
    paper = ArchiveLinks()
    for parts in (("d",), ("d", folder)):
        paper.add(parts)
    links = {name: text for name, text in links.items() if link_stays_inside(("d", folder, name), text)}
    for name, text in links.items():
        paper.add(("d", folder, name), text)
    with tempfile.TemporaryDirectory() as made:
        top = Path(made, "top").resolve()
        (top / "d" / folder).mkdir(parents=True)
        for name, text in links.items():
            (top / "d" / folder / name).symlink_to(text)
        for name in links:
            try:
                paper.check(("d", folder, name))
            except NameFault:
                continue
            led = os.path.realpath(top / "d" / folder / name)
            assert f"{led}/".startswith(f"{top}/")


class Gate:
    """Stands in for a function that a thread calls: holds it up until the test lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self.calls = 0
        real = getattr(owner, name)

        def held_up(*args: Any, **kwargs: Any) -> Any:
            self.entered.set()
            assert self.opened.wait(20)
            value = real(*args, **kwargs)
            self.calls += 1
            return value

        monkeypatch.setattr(owner, name, held_up)

    async def cancel_inside(self, work: Coroutine[Any, Any, object]) -> None:
        """Cancel `work`, twice, while it is held up in a thread; return when it has ended."""
        task = asyncio.ensure_future(work)
        assert await asyncio.to_thread(self.entered.wait, 20)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        self.opened.set()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.anyio
async def test_a_file_is_closed_after_its_last_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").write_bytes(b"body")

    async def read() -> None:
        async with local_source(tmp_path / "in") as source:
            async for _ in source.chunks():
                pass

    gate = Gate(monkeypatch, os, "read")
    await gate.cancel_inside(read())
    assert gate.calls == 1  # on the descriptor that was open


async def land(target: Path) -> None:
    async with landing(target, force=True) as file:
        await file.write(b"x" * 2_000_000)


@pytest.mark.anyio
@pytest.mark.parametrize("step", ["open", "write", "fsync"])
async def test_a_landing_that_is_cancelled_in_a_step_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    gate = Gate(monkeypatch, os, step)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    await gate.cancel_inside(land(tmp_path / "out"))
    assert gate.calls == 1
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


@pytest.mark.anyio
@pytest.mark.parametrize("step", ["mkdir", "symlink_to", "chmod"])
async def test_a_folder_whose_landing_is_cancelled_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    entries = [member("d", type=tarfile.DIRTYPE), member("e", type=tarfile.DIRTYPE), link("l", "d"), link("m", "e")]
    (tmp_path / "a.tar").write_bytes(tar_of(*entries))
    gate = Gate(monkeypatch, Path, step)
    await gate.cancel_inside(unpack_here(tmp_path / "a.tar", tmp_path / "here"))
    assert gate.calls == 1  # nothing more was made after it
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar"]


@given(st.binary(max_size=3000))
def test_noise_is_refused_and_never_crashes_the_reader(data: bytes) -> None:
    with pytest.raises(ArchiveRefusedError):
        list(TarReader(io.BytesIO(data[: len(data) // 512 * 512].strip(b"\0") + b"x")).entries())


@given(st.integers(0, 511), st.integers(0, 255))
def test_a_header_with_one_wrong_byte_is_refused_or_reads_the_same(at: int, value: int) -> None:
    tar = bytearray(tar_of(member("name", b"body")))
    before = list(TarReader(io.BytesIO(bytes(tar))).entries())
    tar[at] = value
    try:
        assert list(TarReader(io.BytesIO(bytes(tar))).entries()) == before
    except ArchiveRefusedError:
        pass


@given(st.text(alphabet="a/.\0é", max_size=12))
def test_a_path_that_is_accepted_stays_in_its_place(path: str) -> None:
    try:
        place, below = split_place(path)
        parts = member_parts(path)
    except NameFault:
        return
    assert place == "/workspace"
    assert os.path.normpath(f"{place}/{below}").startswith(place)
    assert not {"..", "", "."} & set(parts)


@given(st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=4), st.text(alphabet="ab/.", max_size=10))
def test_a_link_that_is_accepted_stays_inside_as_text(parts: list[str], target: str) -> None:
    if link_stays_inside(tuple(parts), target):
        led = os.path.normpath("/".join(["/top", *parts[:-1], target]))
        assert led == "/top" or led.startswith("/top/")
