"""Guards of names in an attached folder: each of them holds, also in the sandbox after one that tried to undo them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moonpool.sandboxes import folder_space
from moonpool.sandboxes.host_folders import HostFolders, Surroundings, attached
from sandboxes.test_host_folders import opened

if TYPE_CHECKING:
    from collections.abc import Generator

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


def test_a_file_system_without_room_for_files_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_space, "_LEFT_BYTES_MIN", 0)
    assert not folder_space._is_full(folder)
    monkeypatch.setattr(folder_space, "_LEFT_FILES_MIN", 1.1)
    assert folder_space._is_full(folder)
