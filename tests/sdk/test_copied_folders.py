"""A folder of this machine whose file system has no id-mapped mounts, as root: a copy that is synchronised."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import moonpool
from apps import DATA, fixture_server
from moonpool.sandboxes import folder_copies, folder_trees
from moonpool.sandboxes.folder_copies import FolderCopies, IdMapProbe
from moonpool.sandboxes.folder_trees import opened
from moonpool.sandboxes.host_folders import HostFolder

if TYPE_CHECKING:
    from moonpool.sandboxes.host_folders import FolderNews

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(os.geteuid() != 0, reason="without root a folder is bound as it is"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that belongs to another account, below folders that only root enters."""
    monkeypatch.setattr(IdMapProbe, "can_map", lambda *_: False)
    (made := tmp_path / "folder").mkdir(mode=0o700)
    os.chown(made, 12345, 54321)
    return made


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    os.chown(path, 12345, 54321)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def copies() -> list[Path]:
    return list((DATA / "run").glob("*/*/copies/*"))


async def test_executions_see_and_change_the_folder(folder: Path) -> None:
    write(folder / "in.txt", "of the host")
    write(folder / ".env", "TOKEN=x")
    async with moonpool.session(workspace=folder) as s:
        ran = await s.run(
            "import os\nopen('out.txt', 'w').write(open('in.txt').read()); os.remove('in.txt')\n"
            "try:\n    open('.env')\nexcept OSError as error:\n    said = error.strerror\n"
            "result = [said, os.getcwd(), os.stat('out.txt').st_uid, os.listdir('/workspace')]"
        )
        assert ran.check().data == ["Permission denied", str(folder), 1000, [".env", "out.txt"]]
        assert names(folder) == [".env", "out.txt"]
        assert ((folder / "out.txt").stat().st_uid, (folder / "out.txt").stat().st_gid) == (12345, 54321)
        write(folder / "out.txt", "edited")
        assert (await s.run("open('out.txt').read()")).data == "edited"
        await s.files.write("put.txt", "by the application")
        assert read(folder / "put.txt") == "by the application"
        write(folder / "put.txt", "by the host")
        assert await s.files.read("put.txt") == b"by the host"
        assert (folder.parent / "folder/.env").read_text(encoding="utf-8") == "TOKEN=x"
    assert copies() == []


async def test_however_an_execution_ends_its_changes_are_in_the_folder(folder: Path) -> None:
    endings = {
        "raises": ("1 / 0", "ZeroDivisionError"),
        "timeout": ("while True: pass", "Timeout"),
        "killed": ("import os; os.kill(os.getpid(), 9)", "KernelKilled"),
        "exits": ("import os; os._exit(3)", "KernelExited"),
    }
    async with moonpool.session(workspace=folder) as s:
        for name, (code, error) in endings.items():
            ran = await s.run(f"open({name!r}, 'w').write('{name}')\n{code}", timeout=1 if name == "timeout" else 30)
            assert ran.error is not None
            assert (ran.error.type, read(folder / name)) == (error, name)
        async with s.stream("open('left', 'w').write('x'); print(1, flush=True)\nwhile True: pass") as events:
            async for _ in events:
                break
        assert read(folder / "left") == "x"
        await s.run("import threading\nthreading.Timer(0, lambda: open('late', 'w').write('x')).start()")
        while not (folder / "late").exists():
            await s.files.list()
    assert names(folder) == sorted([".env", *endings, "late", "left"])
    assert copies() == []


async def test_what_both_changed_is_kept_beside_and_said(folder: Path) -> None:
    write(folder / "a", "1")
    servers = {"echo": fixture_server("echo.py", ask=["*"])}
    code = "from servers.echo import text\nopen('a', 'w').write('code')\nawait text(text='x')\nresult = 1"
    async with moonpool.session(
        workspace=folder, servers=servers, approve=lambda _: write(folder / "a", "by the user") is None
    ) as s:
        ran = await s.run(code)
        assert ran.check().data == 1
        assert f"in {folder} both code and somebody else changed files" in ran.note
        assert "a (a.sandbox)" in ran.note
        assert (read(folder / "a"), read(folder / "a.sandbox")) == ("by the user", "code")
        ran = await s.run("[open('a').read(), open('a.sandbox').read()]")
        assert (ran.data, ran.note) == (["by the user", "code"], "")


async def test_a_folder_that_is_moved_away_is_said_and_comes_back(folder: Path) -> None:
    away = folder.parent / "away"
    async with moonpool.session(workspace=folder) as s:
        assert (await s.run("open('a', 'w').write('1')")).ok
        folder.rename(away)
        ran = await s.run("open('a', 'w').write('2')")
        assert ran.error is not None
        assert (ran.error.type, "moved, removed or unmounted" in ran.error.message) == ("FolderError", True)
        folder.symlink_to(away)
        ran = await s.run("1")
        assert ran.error is not None
        assert ran.error.type == "FolderError"
        folder.unlink()
        folder.mkdir()
        ran = await s.run("1")
        assert ran.error is not None
        assert "another folder is in its place" in ran.error.message
        folder.rmdir()
        away.rename(folder)
        assert (await s.run("open('a').read()")).data == "1"
    assert names(folder) == [".env", "a"]


async def test_work_that_cannot_be_carried_at_the_end_is_kept_and_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_trees, "ENTRIES_MAX", 20)
    async with moonpool.session(workspace=folder) as s:
        ran = await s.run(
            "import os\nopen('report.txt', 'w').write('an hour of work')\n"
            "for number in range(20): os.mkdir(str(number))\nos._exit(3)"
        )
    assert ran.error is not None
    assert "more than 20 files" in ran.error.message
    found = re.search(r"the sandbox's version is kept in (\S+);", ran.error.message)
    assert found is not None, ran.error.message
    kept = Path(found[1])
    assert kept.parent == DATA / "private/folders"
    assert read(kept / "0/report.txt") == "an hour of work"
    closed = [(path.stat().st_uid, path.stat().st_mode & 0o777) for path in (kept, kept.parent)]
    assert (closed, copies()) == ([(0, 0o700)] * 2, [])


def ended(folder: Path, kept: Path, name: str, *, writable: bool = True) -> str:
    """What is told of copies whose folder was moved away before the end."""
    made = FolderCopies(folder.parent / "copies" / name, 100_000, IdMapProbe(), kept)
    with opened(os.open(folder, os.O_PATH)) as fd:
        made.add(HostFolder(folder, writable=writable), fd)
    folder.rename(folder.parent / "away")
    news = made.end()
    (folder.parent / "away").rename(folder)
    return news.failure


def test_only_the_last_copies_are_kept_and_none_of_what_code_may_not_write(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_copies, "KEPT_MAX", 2)
    kept = folder.parent / "kept"
    assert "kept" not in ended(folder, kept, "import", writable=False)
    for name in ("1", "2", "3"):
        assert str(kept / name) in ended(folder, kept, name)
    assert (len(names(kept)), "3" in names(kept), names(folder.parent / "copies")) == (2, True, [])
    kept.chmod(0o777)
    assert str(kept) in ended(folder, kept, "4")
    assert kept.stat().st_mode & 0o777 == 0o700


def test_copies_that_cannot_be_kept_are_removed_and_it_is_said(folder: Path) -> None:
    (folder.parent / "kept").touch()
    assert "the sandbox's version could not be kept" in ended(folder, folder.parent / "kept", "1")
    assert names(folder.parent / "copies") == []


async def test_an_interrupt_while_the_folder_is_copied_runs_no_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synchronise = FolderCopies.synchronise
    async with moonpool.session(workspace=folder) as s:
        await s.run("1")

        def interrupted(copies: FolderCopies) -> FolderNews:
            s.interrupt()
            return synchronise(copies)

        monkeypatch.setattr(FolderCopies, "synchronise", interrupted)
        ran = await s.run("open('ran', 'w').close()")
        monkeypatch.undo()
    assert ran.error is not None
    assert (ran.error.type, names(folder)) == ("Cancelled", [".env"])


ON_OVERLAY = """
set -e
mkdir -p {top}/lower {top}/upper {top}/work {top}/merged
printf lower > {top}/lower/in.txt
mount -t overlay overlay -o lowerdir={top}/lower,upperdir={top}/upper,workdir={top}/work {top}/merged
exec {command} run --workspace {top}/merged -c '{code}'
"""


@pytest.mark.slow
def test_on_an_overlay_as_in_a_container(tmp_path: Path) -> None:
    code = 'open("out.txt", "w").write(open("in.txt").read()); open("in.txt", "a").write("!"); result = 1'
    script = ON_OVERLAY.format(top=tmp_path, command=Path(sys.executable).with_name("moonpool"), code=code)
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        capture_output=True, timeout=120, check=False, encoding="utf-8",
        env={**os.environ, "MOONPOOL_DATA_DIR": str(DATA)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"]["data"] == 1
    found = {path.name: read(path) for path in (tmp_path / "upper").iterdir()}
    assert found == {"out.txt": "lower", "in.txt": "lower!", ".env": ""}
    assert (tmp_path / "upper/out.txt").stat().st_uid == os.geteuid()


async def test_code_makes_no_env_file(folder: Path) -> None:
    write(folder / "own", "x")
    code = """
import os
result = []
for change in (lambda: open(".env", "w"), lambda: os.replace("own", ".env"), lambda: os.unlink(".env")):
    try:
        change()
    except OSError as error:
        result.append(error.strerror)
"""
    async with moonpool.session(workspace=folder) as s:
        assert len((await s.run(code)).check().data) == 3
    found = (folder / ".env").stat()
    assert (found.st_size, found.st_mode & 0o777, found.st_uid, found.st_gid) == (0, 0o600, 12345, 54321)
