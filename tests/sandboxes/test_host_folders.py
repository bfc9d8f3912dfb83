"""Folders of the host in a sandbox: what code can do in one, and what it cannot; which folders are refused."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import sys
import tempfile
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool import bootstrap
from moonpool.sandboxes import folder_space, host_folders
from moonpool.sandboxes.base import LimitKind, SandboxSpec, SandboxStartError
from moonpool.sandboxes.code_writable import code_may_write, leads_to_code
from moonpool.sandboxes.folder_copies import IdMapProbe
from moonpool.sandboxes.host_folders import (
    FOLDERS_MAX,
    FolderError,
    HostFolder,
    HostFolders,
    Surroundings,
    attached,
)
from moonpool.settings import Settings
from moonpool_wire import folder_names
from sandboxes.probe import Probe
from tables import every_row

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Sequence

    from moonpool.sandboxes.base import ImageSpec
    from moonpool.sandboxes.bubblewrap import BubblewrapBackend
    from moonpool.sandboxes.zygote import ZygoteBackend

    Backend = ZygoteBackend | BubblewrapBackend

pytestmark = pytest.mark.anyio
AROUND = Surroundings(home=Path("/home/nobody-here"), data=Path("/var/lib/moonpool-not-here"), own_code=())


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder that only its owner can enter, elsewhere than in a place of the sandbox's own."""
    with tempfile.TemporaryDirectory(prefix="moonpool-folder-", dir="/var/tmp") as made:
        for name in ("beside", "work"):
            (Path(made) / name).mkdir()
        yield Path(made) / "work"


@pytest.fixture
def closed_umask() -> Generator[None]:
    """Of a cautious administrator."""
    before = os.umask(0o77)
    yield
    os.umask(before)


@asynccontextmanager
async def opened(backend: Backend, image: ImageSpec, folders: HostFolders) -> AsyncGenerator[Probe]:
    with anyio.fail_after(60):
        sandbox = await backend.open_sandbox(SandboxSpec(image=image, folders=folders))
    try:
        yield Probe(sandbox)
    finally:
        await sandbox.close()


def shown(*work: Path, imports: Sequence[Path] = (), is_workspace: bool = True) -> HostFolders:
    return attached(work, imports=imports, around=AROUND, is_workspace=is_workspace)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


TRYING = """
import os, stat, socket
def of(action):
    try:
        return action() or "done"
    except OSError as error:
        return error.strerror
def read(path): return open(path).read()
def write(path, text="by code"):
    with open(path, "w") as file:
        file.write(text)
"""

WORKS = (
    TRYING
    + """
write("new.txt"); os.mkdir("sub"); write("sub/b"); os.rename("sub/b", "sub/c"); os.symlink("/etc/shadow", "link")
result = {
    "cwd": os.getcwd(), "read": read("a.txt"), "same": read("/workspace/new.txt"), "owner": os.stat("a.txt").st_uid,
    "through a link": of(lambda: read("link")), "outside": os.listdir(".."), "folders": os.listdir("/folders/0"),
    "tmp": of(lambda: write("/tmp/x")), "import": of(lambda: write(IMPORTS + "/m.py")),
    "imported": read(IMPORTS + "/m.py"),
}
"""
)


@pytest.mark.usefixtures("closed_umask")
async def test_code_works_in_a_folder_as_its_owner(
    real_backend: Backend, image: ImageSpec, folder: Path, tmp_path: Path
) -> None:
    (folder / "a.txt").write_text("of the host", encoding="utf-8")
    (tmp_path / "m.py").write_text("x = 1", encoding="utf-8")
    owner = (os.geteuid(), os.getegid())
    if os.geteuid() == 0:  # also one of an ordinary user, below folders that only root enters
        owner = (12345, 54321)
        for path in (folder, folder / "a.txt"):
            os.chown(path, *owner)
    folders = shown(folder, imports=[tmp_path])
    async with opened(real_backend, image, folders) as probe:
        run = await probe.run(WORKS.replace("IMPORTS", repr(str(tmp_path))))
    assert run.result == {
        "cwd": str(folder),
        "read": "of the host",
        "same": "by code",
        "owner": 1000,
        "through a link": "No such file or directory",
        "outside": [folder.name],
        "folders": [],
        "tmp": "done",
        "import": "Read-only file system",
        "imported": "x = 1",
    }
    assert (folder / "sub/c").read_text(encoding="utf-8") == "by code"
    made = (folder / "new.txt").stat()
    assert (made.st_uid, made.st_gid) == owner


ATTACKS = (
    TRYING
    + """
import ctypes
def rename(flags):
    write("from")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, b"from", -100, b"to", flags):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
result = {
    "read": {name: of(lambda: read(name)) for name in FILES},
    "replace": {name: of(lambda: write(name + ".new") or os.replace(name + ".new", name)) for name in FILES},
    "unlink": {name: of(lambda: os.unlink(name)) for name in FILES},
    "unlock": {name: of(lambda: os.chmod(name, 0o644)) for name in FILES},
    "link": of(lambda: os.link("deep/.env", "copy")),
    "move above": of(lambda: os.rename("deep", "moved") or read("moved/.env")),
    "by link": of(lambda: read("points")),
    "hidden folder": of(lambda: os.listdir(".ssh")),
    "hook": of(lambda: write(".git/hooks/post-checkout")),
    "another configuration": of(lambda: write(".git/commondir")),
    "git away": of(lambda: os.rename(".git", ".git2")),
    "git config": of(lambda: write(".git/config")),
    "venv": of(lambda: write("venv/bin/python")),
    "venv away": of(lambda: os.rename("venv", "v")),
    "editor": of(lambda: write(".vscode/tasks.json")),
    "own code": of(lambda: write("src/own/x.py")),
    "above own code": of(lambda: os.rename("src", "src2")),
    "host socket": of(lambda: socket.socket(socket.AF_UNIX).connect("server.sock")),
    "datagrams": of(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)),
    "pair": of(lambda: [one.close() for one in socket.socketpair()] and None),
    "pipe": of(lambda: os.mkfifo("pipe")),
    "device": of(lambda: os.mknod("null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))),
    "renamed": [of(lambda: rename(flags)) for flags in (4, 5)],
    "setuid": of(lambda: write("tool") or os.chmod("tool", 0o4755)),
    "setgid": of(lambda: os.fchmod(os.open("tool", os.O_RDONLY), 0o2755)),
    "owner": of(lambda: os.chown("tool", 0, 0)),
}
fd = os.open("born", os.O_CREAT | os.O_WRONLY, 0o4755)
os.write(fd, b"#!/bin/sh")
os.close(fd)
"""
)
FILES = [".env", ".env.local", ".netrc", "server.pem", "id_rsa", "deep/.env"]


@pytest.mark.req("X-25")
async def test_code_reaches_nothing_through_a_folder(real_backend: Backend, image: ImageSpec, folder: Path) -> None:
    await attack(real_backend, image, folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="without root no folder is copied")
@pytest.mark.parametrize("real_backend", ["bubblewrap"], indirect=True)
@pytest.mark.usefixtures("closed_umask")
async def test_nor_through_the_copy_of_one(
    real_backend: Backend, image: ImageSpec, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IdMapProbe, "can_map", lambda *_: False)
    await attack(real_backend, image, folder)
    assert not (folder / "copy").exists()
    assert (folder / "tool").stat().st_uid == os.geteuid()


async def attack(real_backend: Backend, image: ImageSpec, folder: Path) -> None:
    for name in ("deep", ".git/hooks", "venv/bin", ".vscode", "src/own", ".ssh"):
        (folder / name).mkdir(parents=True)
    for name in FILES:
        (folder / name).write_text("key", encoding="utf-8")
    (folder / "kept").write_text("key", encoding="utf-8")
    (folder / ".npmrc").symlink_to("kept")
    (folder / "points").symlink_to(folder / "kept")
    for name in ("venv/pyvenv.cfg", "venv/bin/python", ".git/config", "src/own/x.py"):
        (folder / name).write_text("host", encoding="utf-8")
    plan = HostFolders((HostFolder(folder, writable=True, fixed=("src/own",)),), is_workspace=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "server.sock"))
        server.listen()
        async with opened(real_backend, image, plan) as probe:
            run = await probe.run(f"FILES = {FILES!r}\n{ATTACKS}")
    found = run.result
    assert isinstance(found, dict)
    assert found == {
        "read": dict.fromkeys(FILES, "Permission denied"),
        "replace": dict.fromkeys(FILES, "Device or resource busy"),
        "unlink": dict.fromkeys(FILES, "Device or resource busy"),
        "unlock": dict.fromkeys(FILES, "Read-only file system"),
        "link": "Invalid cross-device link",
        "move above": "Device or resource busy",
        "by link": "Permission denied",
        "hidden folder": "Permission denied",
        "hook": "Read-only file system",
        "another configuration": "Read-only file system",
        "git away": "Device or resource busy",
        "git config": "Read-only file system",
        "venv": "Read-only file system",
        "venv away": "Device or resource busy",
        "editor": "Read-only file system",
        "own code": "Read-only file system",
        "above own code": "Device or resource busy",
        "host socket": "Address family not supported by protocol",
        "datagrams": "Address family not supported by protocol",
        "pair": "done",
        "pipe": "Operation not permitted",
        "device": "Operation not permitted",
        "renamed": ["Operation not permitted"] * 2,
        "setuid": "Operation not permitted",
        "setgid": "Operation not permitted",
        "owner": "Invalid argument",
    }
    modes = {path.name: path.lstat().st_mode for path in folder.rglob("*") if not path.is_symlink()}
    assert not [name for name, mode in modes.items() if mode & (stat.S_ISUID | stat.S_ISGID)]
    assert (folder / ".env").read_text(encoding="utf-8") == "key"
    assert (folder / "venv/bin/python").read_text(encoding="utf-8") == "host"


async def test_a_folder_that_was_replaced_by_a_link_is_not_bound(
    real_backend: Backend, image: ImageSpec, folder: Path
) -> None:
    work = folder / "work"
    work.mkdir()
    folders = shown(work)
    work.rmdir()
    work.symlink_to("/etc")
    with pytest.raises(FolderError, match="replaced by a link"):
        async with opened(real_backend, image, folders):
            pass


async def test_what_holds_too_much_is_refused_by_name(real_backend: Backend, image: ImageSpec, folder: Path) -> None:
    for number in range(folder_names.GUARDS_MAX + 1):
        (folder / f"{number}.pem").touch()
    with pytest.raises(SandboxStartError, match="guarded names"):
        async with opened(real_backend, image, shown(folder)):
            pass


async def test_a_sandbox_that_fills_the_disk_of_a_folder_is_ended(
    real_backend: Backend, image: ImageSpec, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(real_backend, image, shown(folder)) as probe:
        monkeypatch.setattr(folder_space, "_LEFT_BYTES_MIN", 1 << 62)
        run = await probe.run_to_exit("while True: pass")
    assert run.exit is not None
    assert run.exit.limit is LimitKind.FOLDER_SPACE


@every_row(
    ("name", "why"),
    [
        ("/", "system's own"),
        ("/etc", "system's own"),
        ("/usr/lib/python3", "system's own"),
        ("/proc/self", "system's own"),
        ("/var", "system's own"),
        ("/tmp", "system's own"),
        ("/home", "system's own"),
        ("/root", "system's own|home"),
        ("~", "a home"),
        ("/sys/kernel", "system's own"),
        ("/dev/shm", "system's own"),
        ("/run/lock", "system's own"),
        ("/var/run", "system's own"),
        ("/run/docker.sock", "No such file|not a folder"),
        ("/workspace/x", "No such file|sandbox's places"),
        ("{folder}/home/..", "a home, or holds one"),
        ("{folder}/to-home", "a home"),
        ("{folder}/loop", "symbolic links|loop"),
        ("{folder}/mounts", "{folder}/mounts/m, below it, is a mount point"),
        ("{folder}/m2", r"{folder}/m2/\\xe9, below it, is a mount point"),
        ("{folder}/home", "a home"),
        ("{folder}", "a home, or holds one"),
        ("{folder}/data", "Moonpool's data"),
        ("{folder}/data/private", "Moonpool's data"),
        ("{folder}/code/sub", "Moonpool itself"),
        ("{folder}/missing", "No such file"),
        ("{folder}/file", "not a folder"),
        ("{folder}/to-etc", "system's own"),
        ("{folder}/odd\nname", "printed"),
    ],
)
def test_folders_that_are_refused(folder: Path, name: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.setattr(host_folders, "_mount_points", lambda: [folder / "mounts/m", folder / os.fsdecode(b"m2/\xe9")])
    for made in ("home", "data/private", "code/sub", "odd\nname", "mounts/m", "m2"):
        (folder / made).mkdir(parents=True, exist_ok=True)
    (folder / "file").touch()
    for link, target in (("to-etc", "/etc"), ("to-home", "home"), ("loop", "loop")):
        if not (folder / link).is_symlink():
            (folder / link).symlink_to(target)
    around = Surroundings(home=folder / "home", data=folder / "data", own_code=(folder / "code",))
    with pytest.raises(FolderError, match=why.format(folder=folder)):
        attached([name.format(folder=folder)], around=around)


def test_no_folder_leads_to_the_python_that_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by a link that code could replace, and not by compiled modules, which Python runs in place of its own."""
    (folder / "venv").symlink_to(sys.prefix)
    (folder / "lib").mkdir()
    monkeypatch.setattr(sys, "prefix", str(folder / "venv"))
    with pytest.raises(FolderError, match=f"by way of {folder}/venv, a link that code could replace"):
        shown(folder)
    assert shown(folder / "lib", imports=[folder]).shown[1].path == folder
    monkeypatch.setattr(sys, "pycache_prefix", str(folder / "lib/not-yet"))
    with pytest.raises(FolderError, match="PYTHONPYCACHEPREFIX"):
        shown(folder / "lib")


def test_code_may_write_where_a_folder_was_attached_and_not_where_one_was_refused(folder: Path) -> None:
    parts = [folder / f"part{number}" for number in range(FOLDERS_MAX + 1)]
    for path in parts:
        path.mkdir()
    with pytest.raises(FolderError, match="at most"):
        shown(*parts)
    assert not code_may_write(parts[0])
    kept = folder / "part1/kept"
    kept.mkdir()
    attached([parts[1]], imports=[parts[2]], around=replace(AROUND, own_code=(kept,)))
    assert [code_may_write(path / "below") for path in (parts[1], kept, parts[2])] == [True, False, False]
    assert leads_to_code(parts[1] / "..")  # what is there may be a link, too


def test_an_environment_from_which_this_process_imports_is_read_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So its libraries are not the program's own modules, and import nothing from the folder late."""
    packages = folder / "with env/lib/python3/site-packages"
    for other in (packages, folder / "src"):
        other.mkdir(parents=True)
        monkeypatch.syspath_prepend(str(other))
    (folder / "with env/pyvenv.cfg").touch()
    (folder / "src/pyvenv.cfg").touch()  # which code may have made: what lies there would be taken for read-only
    assert shown(folder).shown[0].fixed == ("with env",)
    assert not leads_to_code(packages / "library.py")


def test_mount_points_are_read_as_the_kernel_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        b"36 25 8:1 / /srv/Gr\xc3\xb6\xc3\x9fe/a\\040b\\134 rw - ext4 /dev/x rw\n"
        b"37 25 8:1 / /srv/\xe9\x0c\r rw - ext4 x rw\n"
    )
    monkeypatch.setattr(Path, "read_bytes", lambda _: lines)
    assert [os.fsencode(path) for path in host_folders._mount_points()] == [
        b"/srv/Gr\xc3\xb6\xc3\x9fe/a b\\", b"/srv/\xe9\x0c\r",
    ]  # fmt: skip


def test_what_is_in_a_folder_already_is_attached_once(folder: Path) -> None:
    for made in ("images", "lib"):
        (folder / made).mkdir()
    around = Surroundings(home=Path("/home/x"), data=Path("/nowhere"), own_code=(folder / "lib", folder / "lib/a"))
    folders = attached([folder, folder / "images"], imports=[folder / "lib"], around=around)
    assert folders.shown == (HostFolder(folder, writable=True, fixed=("lib",)),)


def test_a_folder_has_the_path_to_which_its_name_leads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "real/sub").mkdir(parents=True)
    (folder / "link").symlink_to("real")
    monkeypatch.chdir(folder)
    for given in ("real", "./real/", "link", "real/sub/..", folder / "link", "link/sub/../../real"):
        assert [one.path for one in shown(Path(given)).shown] == [folder / "real"], given


@pytest.mark.parametrize("real_backend", ["bubblewrap"], indirect=True)
async def test_work_in_an_import_folder_is_writable_and_the_rest_is_not(
    real_backend: Backend, image: ImageSpec, folder: Path
) -> None:
    (folder / "a/b").mkdir(parents=True)
    async with opened(real_backend, image, shown(folder / "a/b", imports=[folder / "a", folder])) as probe:
        run = await probe.run(f"{TRYING}result = [of(lambda: write('x')), of(lambda: write('../x')), os.getcwd()]")
    assert run.result == ["done", "Read-only file system", str(folder / "a/b")]
    assert names(folder / "a/b") == [".env", "x"]


@pytest.mark.parametrize("real_backend", ["bubblewrap"], indirect=True)
async def test_a_folder_that_is_moved_or_removed_stays_what_it_was_for_code(
    real_backend: Backend, image: ImageSpec, folder: Path
) -> None:
    for name in ("one", "two"):
        (folder / name).mkdir()
    folders = shown(folder / "one", folder / "two")
    async with opened(real_backend, image, folders) as probe:
        (folder / "one").rename(folder / "moved")
        (folder / "one").mkdir()
        shutil.rmtree(folder / "two")
        run = await probe.run(f"{TRYING}write('x'); result = of(lambda: write({str(folder / 'two/x')!r}))")
    assert run.result == "No such file or directory"
    assert (names(folder / "moved"), names(folder / "one")) == ([".env", "x"], [])
    with pytest.raises(FolderError, match="cannot be attached any more"):
        await real_backend.open_sandbox(SandboxSpec(image=image, folders=folders))


@pytest.mark.parametrize("given", ["a\0b", "~nobody-of-this-name/x", "loop", "missing"])
def test_a_path_that_leads_nowhere_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(FolderError, match=f"^{re.escape(repr(given))} cannot be attached: "):
        bootstrap.host_folders(Settings(data_dir=tmp_path / "data"), {"HOME": "/root"}, [given])
