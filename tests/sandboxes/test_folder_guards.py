"""Guards of names in an attached folder: each of them holds, also in the sandbox after one that tried to undo them."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moonpool.sandboxes.host_folders import FolderError, HostFolders, Surroundings, attached
from moonpool_guest import folders as guest_folders
from sandboxes.test_host_folders import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from moonpool.sandboxes.base import ImageSpec
    from moonpool.sandboxes.bubblewrap import BubblewrapBackend
    from moonpool.sandboxes.zygote import ZygoteBackend

    Backend = ZygoteBackend | BubblewrapBackend

pytestmark = pytest.mark.anyio
FILES = [
    "backend/.env", "conf/.env", "keys/Server.PEM", "keys/prod.env", "svc/.env", "svc/api/.venv/lib/.netrc",
    "svc/api/.env",
]  # fmt: skip
GUARDED_BELOW = ("backend/app/.vscode/tasks.json", "svc/api/.venv/pyvenv.cfg")
"""A guard of each needs the folders above it to stay where they are."""

SAID = """
import os
def of(action):
    try:
        return action() or "done"
    except OSError as error:
        return error.strerror
found = {name: of(lambda: open(name).read()) for name in FILES}
"""
UNDOING = """
os.makedirs("new/.git")
open("conf/pyvenv.cfg", "w").close()
open("pyvenv.cfg", "w").close()
moved = {of(lambda: os.rename(name, "new/.git/" + name)) for name in ("backend", "conf", "keys", "svc")}
result = found, sorted(moved), of(lambda: open("bin/helper", "r+b"))
"""


@pytest.fixture
def folder() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="moonpool-folder-", dir="/var/tmp") as made:
        yield Path(made)


def shown(folder: Path) -> HostFolders:
    around = Surroundings(home=Path("/home/nobody-here"), data=Path("/var/lib/moonpool-not-here"), own_code=())
    return attached([folder], around=around, is_workspace=True)


async def test_credentials_stay_hidden_beside_guards_below_and_in_the_next_sandbox(
    real_backend: Backend, image: ImageSpec, folder: Path
) -> None:
    for name in (*FILES, *GUARDED_BELOW):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("key", encoding="utf-8")
    helper = folder / "bin/helper"
    helper.parent.mkdir()
    helper.touch()
    helper.chmod(0o4755)
    denied = dict.fromkeys(FILES, "Permission denied")
    async with opened(real_backend, image, shown(folder)) as probe:
        run = await probe.run(f"FILES = {FILES!r}\n{SAID}{UNDOING}")
        assert run.result == [denied, ["Device or resource busy"], "Read-only file system"]
    async with opened(real_backend, image, shown(folder)) as probe:
        run = await probe.run(f"FILES = {FILES!r}\n{SAID}\nresult = found")
        assert run.result == denied


def test_a_link_in_a_folder_that_code_may_write_leads_to_no_other(folder: Path) -> None:
    work, private = folder / "work", folder / "private"
    for made in (work, private / "below"):
        made.mkdir(parents=True)
    (work / "link").symlink_to(private)
    around = Surroundings(home=Path("/home/nobody-here"), data=Path("/var/lib/moonpool-not-here"), own_code=())
    for named in (work / "link", work / "link/below", work / "link/../private", work / "../work/link"):
        with pytest.raises(FolderError, match="link that code may have made"):
            attached([work, named], around=around)
        with pytest.raises(FolderError, match="link that code may have made"):
            attached([work], imports=[named], around=around)


PACKAGED = "layer/python/site-packages/app/.env"


async def test_credentials_in_packages_stay_hidden_where_code_declares_a_virtual_environment(
    real_backend: Backend, image: ImageSpec, folder: Path
) -> None:
    trusted = folder / "venv/lib/site-packages/certifi/cacert.pem"
    for path in (folder / PACKAGED, folder / "venv/pyvenv.cfg", trusted):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text", encoding="utf-8")
    code = f"FILES = {[PACKAGED]!r}\n{SAID}result = [*found.values(), of(lambda: open({str(trusted)!r}).read()), "
    async with opened(real_backend, image, shown(folder)) as probe:
        run = await probe.run(code + "of(lambda: open('layer/pyvenv.cfg', 'w').close())]")
        assert run.result == ["Permission denied", "text", "done"]
    async with opened(real_backend, image, shown(folder)) as probe:
        run = await probe.run(code + "of(lambda: open('venv/lib/site-packages/x', 'w'))]")
        assert run.result == ["Permission denied", "text", "Read-only file system"]


class Mounts:
    """What PID 1 would mount in a folder, when the host changes the folder meanwhile."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch = folder, monkeypatch
        self.masked: list[str] = []
        self.bound: list[str] = []
        self.read_only: list[str] = []
        monkeypatch.setattr(guest_folders.linux, "mount", self._mount)
        monkeypatch.setattr(guest_folders.linux, "make_read_only", lambda at: self.read_only.append(self._place(at)))

    def _place(self, descriptor: str) -> str:
        return str(Path(descriptor).readlink().relative_to(self.folder))

    def _mount(self, source: str, target: str, *_: object) -> None:
        (self.bound if source == target else self.masked).append(self._place(target))

    def before_each_look(self, change: Callable[[], object]) -> None:
        look = guest_folders._Guards._listed

        def listed(guards: guest_folders._Guards, below: str) -> list[tuple[str, int]]:
            change()
            return look(guards, below)

        self._patch.setattr(guest_folders._Guards, "_listed", listed)

    def after_each_scan(self, change: Callable[[], object]) -> None:
        scandir = os.scandir

        @contextmanager
        def scanned(fd: int) -> Generator[list[os.DirEntry[str]]]:
            with scandir(fd) as scan:
                entries = list(scan)
            change()
            yield entries

        self._patch.setattr(guest_folders.os, "scandir", scanned)

    def before_each_mount(self, name: str, change: Callable[[], object]) -> None:
        opens = guest_folders.linux.open_beneath

        def open_beneath(root: int, path: bytes, flags: int) -> int:
            if path == name.encode() and flags & os.O_PATH:
                change()
            return opens(root, path, flags)

        self._patch.setattr(guest_folders.linux, "open_beneath", open_beneath)

    def set(self) -> None:
        guest_folders._Guards(str(self.folder), "/masks").set([])


@pytest.fixture
def mounts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Mounts:
    for name in (".env", "passing", "deep/.env", "deep/.git/config", "last/.env"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return Mounts(folder, monkeypatch)


ALL_MASKED = [".env", "deep/.env", "last/.env"]


def test_a_file_that_goes_away_during_the_look_leaves_no_guard_out(mounts: Mounts) -> None:
    mounts.after_each_scan(lambda: (mounts.folder / "passing").unlink(missing_ok=True))
    mounts.set()
    assert (sorted(mounts.masked), mounts.read_only) == (ALL_MASKED, ["deep/.git"])


@pytest.mark.parametrize("name", [".env", "deep", "deep/.env", "deep/.git"])
def test_what_goes_away_before_its_mount_and_comes_back_is_guarded(mounts: Mounts, name: str) -> None:
    gone = iter([FileNotFoundError()])

    def away_once() -> None:
        for error in gone:
            raise error

    mounts.before_each_mount(name, away_once)
    mounts.set()
    assert (sorted(mounts.masked), mounts.read_only) == (ALL_MASKED, ["deep/.git"])
    assert sorted(mounts.bound) == ["deep", "deep/.git", "last"]


@pytest.mark.parametrize("when", ["after its scan", "before its mount"])
@pytest.mark.parametrize("comes_back", [False, True])
def test_a_credential_that_goes_away_is_no_other_ones_loss(mounts: Mounts, when: str, *, comes_back: bool) -> None:
    """One that is there again at each look is refused: a guard could be missed."""
    credential = mounts.folder / "deep/.env"

    def away() -> None:
        credential.unlink(missing_ok=True)

    def back() -> None:
        if comes_back:
            credential.touch()

    mounts.before_each_look(back)
    if when == "after its scan":
        mounts.after_each_scan(away)
    else:
        mounts.before_each_mount("deep/.env", away)
    with pytest.raises(OSError, match="come and go") if comes_back else nullcontext():
        mounts.set()
    assert comes_back or sorted(mounts.masked) == [".env", "last/.env"]
