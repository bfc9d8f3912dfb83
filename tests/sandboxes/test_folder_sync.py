"""A folder and its copy: what is carried where, what never is, and that nothing is lost when both sides changed."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moonpool.sandboxes import folder_looks, folder_trees
from moonpool.sandboxes.folder_sync import FolderSync, SyncReport
from moonpool.sandboxes.host_folders import FolderError
from tables import every_row

if TYPE_CHECKING:
    from collections.abc import Callable


class Pair:
    """A folder and its copy in the same temporary folder; both belong to us."""

    def __init__(self, top: Path, *, writable: bool = True) -> None:
        self.host, self.copy = top / "host", top / "copy"
        for folder in (self.host, self.copy):
            folder.mkdir(parents=True)
        owner = (os.geteuid(), os.getegid())
        self.sync = FolderSync(owner, os.geteuid(), writable=writable)

    def synchronise(self) -> SyncReport:
        roots = [os.open(folder, os.O_RDONLY | os.O_DIRECTORY) for folder in (self.host, self.copy)]
        try:
            return self.sync.synchronise(*roots)
        finally:
            for root in roots:
                os.close(root)


def tree(folder: Path) -> dict[str, object]:
    """Content of files, targets of links, None for folders and for what is closed to all."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = "-> " + str(path.readlink())
        elif path.is_dir():
            found[name] = None
        elif path.is_file():
            found[name] = path.read_text(encoding="utf-8") if path.stat().st_mode & 0o777 else None
    return found


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


BEFORE = {"a": "1", "sub": None, "sub/b": "2", "sub/deep": None, "sub/deep/c": "3"}


def both_start(pair: Pair) -> None:
    for name, text in BEFORE.items():
        if text is not None:
            write(pair.host / name, text)
    assert pair.synchronise() == SyncReport()
    assert tree(pair.copy) == tree(pair.host) == BEFORE


def remove_sub(root: Path) -> None:
    (root / "sub/deep/c").unlink()
    (root / "sub/deep").rmdir()
    (root / "sub/b").unlink()
    (root / "sub").rmdir()


def no_change(_: Path) -> None:
    pass


def sub_is_a_file(root: Path) -> None:
    remove_sub(root)
    write(root / "sub", "file")


def a_is_a_folder(root: Path) -> None:
    (root / "a").unlink()
    write(root / "a/x", "in a folder")


def changed(text: str, name: str = "a") -> Callable[[Path], None]:
    return lambda root: write(root / name, text)


def same_time_and_size(root: Path) -> None:
    before = (root / "a").stat()
    write(root / "a", "9")
    os.utime(root / "a", ns=(before.st_atime_ns, before.st_mtime_ns))


WITHOUT_SUB = {"a": "1"}
STEPS = [
    # what the host did, what code did, what is on both sides then, what is told: kept beside
    pytest.param(changed("host"), no_change, {**BEFORE, "a": "host"}, (), id="changed by the host"),
    pytest.param(no_change, changed("code"), {**BEFORE, "a": "code"}, (), id="changed by code"),
    pytest.param(no_change, same_time_and_size, {**BEFORE, "a": "9"}, (), id="changed, with size and time as before"),
    pytest.param(no_change, remove_sub, WITHOUT_SUB, (), id="removed by code"),
    pytest.param(remove_sub, no_change, WITHOUT_SUB, (), id="removed by the host"),
    pytest.param(remove_sub, remove_sub, WITHOUT_SUB, (), id="removed by both"),
    pytest.param(changed("x", "n/x"), changed("y", "n/y"), {**BEFORE, "n": None, "n/x": "x", "n/y": "y"}, (),
                 id="one folder made by both"),
    pytest.param(changed("same"), changed("same"), {**BEFORE, "a": "same"}, (), id="changed alike"),
    pytest.param(changed("host"), changed("code"), {**BEFORE, "a": "host", "a.sandbox": "code"},
                 (("a", "a.sandbox"),), id="changed by both"),
    pytest.param(changed("host", "new"), changed("code", "new"), {**BEFORE, "new": "host", "new.sandbox": "code"},
                 (("new", "new.sandbox"),), id="made by both"),
    pytest.param(lambda root: (root / "a").unlink(), changed("code"), {**BEFORE, "a": "code"}, (),
                 id="removed by the host and changed by code"),
    pytest.param(changed("host", "sub/b"), remove_sub, {"a": "1", "sub": None, "sub/b": "host"}, (),
                 id="changed by the host, and its folder removed by code"),
    pytest.param(no_change, sub_is_a_file, {"a": "1", "sub": "file"}, (), id="a file in the place of a folder"),
    pytest.param(no_change, a_is_a_folder, {**BEFORE, "a": None, "a/x": "in a folder"}, (),
                 id="a folder in the place of a file"),
    pytest.param(changed("host"), a_is_a_folder,
                 {**BEFORE, "a": "host", "a.sandbox": None, "a.sandbox/x": "in a folder"}, (("a", "a.sandbox"),),
                 id="a folder in the place of a file that the host changed"),
    pytest.param(no_change, lambda root: (root / "l").symlink_to("/etc/passwd"), {**BEFORE, "l": "-> /etc/passwd"}, (),
                 id="a link, as a link"),
    pytest.param(no_change, lambda root: os.link(root / "a", root / "twin"), {**BEFORE, "twin": "1"}, (),
                 id="a second name is a second file"),
    pytest.param(changed("host", ".env"), no_change, BEFORE, (), id="a credential made later stays outside"),
    pytest.param(changed("host", ".env"), changed("code", ".env"), {**BEFORE, ".env.sandbox": "code"},
                 ((".env", ".env.sandbox"),), id="code does not overwrite a credential"),
]  # fmt: skip


@every_row(("by_host", "by_code", "after", "beside"), STEPS)
def test_what_one_side_changed_is_carried_and_nothing_is_lost(
    tmp_path: Path,
    by_host: Callable[[Path], None],
    by_code: Callable[[Path], None],
    after: dict[str, object],
    beside: tuple[tuple[str, str], ...],
) -> None:
    pair = Pair(tmp_path / os.urandom(4).hex())
    both_start(pair)
    by_host(pair.host)
    by_code(pair.copy)
    assert pair.synchronise() == SyncReport(beside=beside)
    assert tree(pair.copy) == after
    assert {name: text for name, text in tree(pair.host).items() if name != ".env"} == after
    assert (pair.host / "a").is_symlink() is False
    assert pair.synchronise() == SyncReport()
    assert tree(pair.copy) == after


def test_modes_and_times_are_kept_and_odd_files_stay_where_they_are(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    both_start(pair)
    (pair.host / "a").chmod(0o640)
    write(pair.copy / "run", "#!/bin/sh")
    os.utime(pair.copy / "run", ns=(1, 10**18))
    (pair.copy / "run").chmod(0o4755)
    os.mkfifo(pair.copy / "pipe")
    os.mkfifo(pair.host / "their pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        (tmp_path / "s").rename(pair.host / "socket")
    assert pair.synchronise() == SyncReport()
    assert stat.S_IMODE((pair.copy / "a").stat().st_mode) == 0o640
    made = (pair.host / "run").stat()
    assert (stat.S_IMODE(made.st_mode), made.st_mtime_ns) == (0o755, 10**18)
    assert names(pair.host) == ["a", "run", "socket", "sub", "their pipe"]
    assert names(pair.copy) == ["a", "pipe", "run", "sub"]


def test_what_code_may_not_touch_never_comes_back_and_credentials_never_go_in(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    for name in (
        ".env",
        ".ssh/id",
        ".git/config",
        ".git/x.key",
        "venv/pyvenv.cfg",
        "venv/cacert.pem",
        ".vscode/t.json",
    ):
        write(pair.host / name, "host")
    assert pair.synchronise() == SyncReport()
    hidden = pair.copy / ".env", pair.copy / ".ssh"
    assert [(path.stat().st_size, stat.S_IMODE(path.stat().st_mode)) for path in hidden[:1]] == [(0, 0)]
    assert stat.S_IMODE(hidden[1].stat().st_mode) == 0
    for name in (".git/config", ".git/x.key", "venv/cacert.pem", ".vscode/t.json"):
        assert (pair.copy / name).read_text(encoding="utf-8") == "host"
        write(pair.copy / name, "code")
    write(pair.copy / ".git/hooks/post-checkout", "code")
    (pair.copy / ".env").chmod(0o600)
    write(pair.copy / ".env", "code")
    write(pair.host / ".git/config", "by git")
    assert pair.synchronise() == SyncReport()
    assert set(tree(pair.host).values()) == {None, "host", "by git"}
    assert not (pair.host / ".git/hooks").exists()
    assert (pair.copy / ".git/config").read_text(encoding="utf-8") == "by git"


def test_a_virtual_environment_that_code_declared_hides_no_less(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    for name in ("conf/pyvenv.cfg", "conf/.env", "conf/site-packages/deep/id_rsa"):
        write(pair.host / name, "host")
    pair.synchronise()
    write(pair.host / "conf/prod.env", "later")
    pair.synchronise()
    found = tree(pair.copy)
    assert {name for name, text in found.items() if text is not None} == {"conf/pyvenv.cfg"}
    assert "conf/prod.env" not in found


def test_an_import_folder_is_only_read(tmp_path: Path) -> None:
    pair = Pair(tmp_path, writable=False)
    write(pair.host / "m.py", "1")
    pair.synchronise()
    write(pair.copy / "m.py", "code")
    write(pair.copy / "new.py", "code")
    assert pair.synchronise() == SyncReport()
    assert tree(pair.host) == {"m.py": "1"}


def test_a_folder_that_becomes_a_link_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code swaps a folder between the look and the copying, in both directions."""
    pair = Pair(tmp_path)
    both_start(pair)
    outside = tmp_path / "outside"
    write(outside / "b", "outside")
    write(pair.copy / "sub/new", "code")
    write(pair.host / "sub/b", "changed by the host")
    carry = FolderSync._carry

    def swapped(self: FolderSync, *arguments: object, **how: object) -> None:
        if not (pair.copy / "sub").is_symlink():
            (pair.copy / "sub").rename(pair.copy / "moved")
            (pair.copy / "sub").symlink_to(outside)
        carry(self, *arguments, **how)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(FolderSync, "_carry", swapped)
    pair.synchronise()
    assert tree(outside) == {"b": "outside"}
    assert "outside" not in tree(pair.host).values()
    assert (pair.host / "sub/b").read_text(encoding="utf-8") == "changed by the host"


def test_a_file_of_the_host_is_whole_whenever_the_copying_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(tmp_path)
    both_start(pair)
    write(pair.copy / "a", "from the sandbox")

    def killed(*_: object, **__: object) -> None:
        assert tree(pair.host)["a"] == "1"
        raise KeyboardInterrupt

    monkeypatch.setattr(folder_trees.os, "utime", killed)
    with pytest.raises(KeyboardInterrupt):
        pair.synchronise()
    assert tree(pair.host) == BEFORE
    monkeypatch.undo()
    pair.synchronise()
    assert tree(pair.host) == {**BEFORE, "a": "from the sandbox"}


def test_what_the_host_changes_in_the_last_moment_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(tmp_path)
    both_start(pair)
    write(pair.copy / "a", "code")
    write(pair.copy / "new", "code")
    rename = folder_trees.rename

    def late(folder: int, old: str, new: str, flags: int) -> None:
        if (pair.host / "a").read_text(encoding="utf-8") == "1":
            write(pair.host / "a", "host")
            write(pair.host / "new", "host")
        rename(folder, old, new, flags)

    monkeypatch.setattr(folder_trees, "rename", late)
    report = pair.synchronise()
    assert tree(pair.host) == {**BEFORE, "a": "host", "a.sandbox": "code", "new": "host", "new.sandbox": "code"}
    assert report.beside == (("a", "a.sandbox"), ("new", "new.sandbox"))


def test_too_much_is_refused_before_anything_is_carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(tmp_path)
    both_start(pair)
    write(pair.copy / "a", "code")
    for limit, value, words in (("ENTRIES_MAX", 4, "more than 4 files"), ("BYTES_MAX", 2, "more than 2 bytes")):
        with monkeypatch.context() as patch:
            patch.setattr(folder_trees, limit, value)
            with pytest.raises(FolderError, match=words):
                pair.synchronise()
        assert tree(pair.host) == BEFORE
    pair.synchronise()
    assert tree(pair.host) == {**BEFORE, "a": "code"}


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to others")
def test_root_carries_only_what_the_folders_owner_could(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.sync = FolderSync((12345, 12345), 23456, writable=True)
    for name, owner, mode in (("own", 12345, 0o600), ("secret", 0, 0o600), ("shown", 0, 0o644), ("theirs/x", 0, 0o644)):
        write(pair.host / name, "host")
        os.chown(pair.host / name, owner, owner)
        (pair.host / name).chmod(mode)
    os.chown(pair.host, 12345, 12345)
    assert pair.synchronise() == SyncReport()
    assert set(tree(pair.copy)) == {"own", "shown", "theirs", "theirs/x"}
    assert {(pair.copy / name).stat().st_uid for name in tree(pair.copy)} == {23456}
    for name in ("own", "shown", "secret", "theirs/new"):
        write(pair.copy / name, "code")
    (pair.copy / "link").symlink_to("x")
    report = pair.synchronise()
    assert report.beside == (("secret", "secret.sandbox"), ("shown", "shown.sandbox"))
    assert [path for path, _ in report.left] == ["theirs/new"]
    found = tree(pair.host)
    assert (found["own"], found["shown"], found["secret"]) == ("code", "host", "host")
    made = [pair.host / name for name in ("own", "shown.sandbox", "secret.sandbox", "link")]
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in made} == {(12345, 12345)}


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to others")
def test_root_removes_and_changes_only_what_the_folders_owner_could(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.sync = FolderSync((12345, 12345), 23456, writable=True)
    for name in ("drop/removed", "drop/changed", "drop/own", "drop/sub/x"):
        write(pair.host / name, "host")
        (pair.host / name).chmod(0o666)
    for path in (pair.host, pair.host / "drop/own"):
        os.chown(path, 12345, 12345)
    (pair.host / "drop/sub").chmod(0o777)
    (pair.host / "drop").chmod(0o1777)
    assert pair.synchronise() == SyncReport()
    for name in ("removed", "own", "sub/x"):
        (pair.copy / "drop" / name).unlink()
    (pair.copy / "drop/sub").rmdir()
    write(pair.copy / "drop/changed", "code")
    assert pair.synchronise().beside == (("drop/changed", "drop/changed.sandbox"),)
    assert pair.synchronise() == SyncReport()
    after = {"drop": None, "drop/changed": "host", "drop/changed.sandbox": "code", "drop/removed": "host"}
    assert tree(pair.host) == tree(pair.copy) == {**after, "drop/sub": None}
    (pair.copy / "drop").chmod(0o755)
    assert pair.synchronise().left == (("drop", "the folder belongs to another user"),)
    assert stat.S_IMODE((pair.host / "drop").stat().st_mode) == 0o1777


@pytest.mark.skipif(os.geteuid() != 0, reason="reads what its owner closed")
def test_what_its_owner_closed_for_a_moment_stays_in_the_copy(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    both_start(pair)
    for name, closed in (("sub", 0o300), ("a", 0o200)):
        (pair.copy / name).chmod(closed)
        for _ in range(2):
            assert pair.synchronise() == SyncReport()
        assert stat.S_IMODE((pair.host / name).stat().st_mode) == closed
    assert tree(pair.copy) == BEFORE
    for name, opened in (("sub", 0o755), ("a", 0o644)):
        (pair.copy / name).chmod(opened)
    write(pair.copy / "a", "code")
    assert pair.synchronise() == SyncReport()
    assert tree(pair.host) == tree(pair.copy) == {**BEFORE, "a": "code"}


def test_a_folder_that_the_host_removed_stays_away_though_its_mask_stays(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    for name in ("conf/x", "conf/.env", "conf/deep/.env", "kept/.env"):
        write(pair.host / name, "host")
    pair.synchronise()
    shutil.rmtree(pair.host / "conf")
    for _ in range(3):
        assert pair.synchronise() == SyncReport()
        assert names(pair.host) == ["kept"]
    write(pair.copy / "conf/deep/new", "code")
    pair.synchronise()
    assert tree(pair.host / "conf") == {"deep": None, "deep/new": "code"}
    shutil.rmtree(pair.host / "conf")
    pair.synchronise()
    write(pair.host / "conf/x", "again")
    assert pair.synchronise() == SyncReport()
    assert (pair.copy / "conf/x").read_text(encoding="utf-8") == "again"


def test_a_file_that_was_not_finished_is_no_file_of_the_folder(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    write(pair.host / f"{folder_looks.OURS}12", "half")
    pair.synchronise()
    assert tree(pair.copy) == {}


def test_what_code_made_too_deep_is_told_and_all_else_is_carried(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    both_start(pair)
    write(pair.copy / "new", "code")
    above = os.open(pair.copy, os.O_RDONLY)
    for _ in range(1_200):  # deeper than a path, the stack and the descriptors of one process
        os.mkdir("folder", dir_fd=above)
        below = os.open("folder", os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = below
    os.close(above)
    report = pair.synchronise()
    assert [(set(path.split("/")), why) for path, why in report.left] == [({"folder"}, "File name too long")]
    assert (pair.host / "new").read_text(encoding="utf-8") == "code"
    folder_trees.remove_tree(pair.copy)
    assert not pair.copy.exists()
