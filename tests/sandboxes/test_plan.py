"""Plans, slots and identities: the pure parts of the backends."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import anyio
import pytest
from inline_snapshot import snapshot

from moonpool.sandboxes import identity
from moonpool.sandboxes.base import ImageSpec, SandboxLimits, SandboxSpec, SandboxStartError, TreeRef
from moonpool.sandboxes.identity import SLICE, UID_COUNT, UID_FIRST, Identities, Identity, SingleUids
from moonpool.sandboxes.plan import (
    OuterSandboxParts,
    covers,
    execution_outer_sandbox,
    guest_command,
    zygote_outer_sandbox,
)
from moonpool.sandboxes.process import OuterSandboxStarter
from moonpool.sandboxes.slots import _SPARES_MAX, SlotFolder
from moonpool_guest import confine

IMAGE = ImageSpec(
    name="base",
    digest="d1",
    python=Path("/env/python/bin/python3.11"),
    guest=Path("/env/guest/g1"),
    binds=(Path("/env/python"),),
    site_paths=(Path("/env/data/site"),),
    variables={"LD_LIBRARY_PATH": "/env/python/lib"},
)
PARTS = OuterSandboxParts(
    launcher=Path("/usr/bin/bwrap"),
    image=IMAGE,
    etc=Path("/run/etc"),
    slots=Path("/run/slots/s1"),
    seccomp_fd=9,
    hash_seed=42,
)


def test_the_outer_sandbox_of_a_zygote() -> None:
    assert zygote_outer_sandbox(PARTS, ["python", "-c", "pass"]) == snapshot(
        [
            "/usr/bin/bwrap",
            "--unshare-user",
            "--unshare-ipc",
            "--unshare-pid",
            "--unshare-net",
            "--unshare-uts",
            "--unshare-cgroup",
            "--uid",
            "1000",
            "--gid",
            "1000",
            "--hostname",
            "sandbox",
            "--die-with-parent",
            "--new-session",
            "--cap-drop",
            "ALL",
            "--clearenv",
            "--setenv",
            "PATH",
            "/usr/bin:/bin",
            "--setenv",
            "HOME",
            "/home/user",
            "--setenv",
            "LANG",
            "C.UTF-8",
            "--setenv",
            "LD_LIBRARY_PATH",
            "/env/python/lib",
            "--setenv",
            "PYTHONHASHSEED",
            "42",
            "--perms",
            "0755",
            "--dir",
            "/env",
            "--perms",
            "0755",
            "--dir",
            "/etc",
            "--perms",
            "0755",
            "--dir",
            "/etc/ssl",
            "--perms",
            "0755",
            "--dir",
            "/home",
            "--ro-bind",
            "/usr",
            "/usr",
            "--size",
            "65536",
            "--perms",
            "0555",
            "--tmpfs",
            "/usr/local",
            "--remount-ro",
            "/usr/local",
            "--symlink",
            "usr/bin",
            "/bin",
            "--symlink",
            "usr/lib",
            "/lib",
            "--symlink",
            "usr/lib64",
            "/lib64",
            "--symlink",
            "usr/sbin",
            "/sbin",
            "--ro-bind-try",
            "/etc/ld.so.cache",
            "/etc/ld.so.cache",
            "--ro-bind-try",
            "/etc/alternatives",
            "/etc/alternatives",
            "--ro-bind-try",
            "/etc/fonts",
            "/etc/fonts",
            "--ro-bind-try",
            "/etc/ssl/certs",
            "/etc/ssl/certs",
            "--ro-bind",
            "/run/etc/passwd",
            "/etc/passwd",
            "--ro-bind",
            "/run/etc/group",
            "/etc/group",
            "--ro-bind",
            "/run/etc/hosts",
            "/etc/hosts",
            "--ro-bind",
            "/run/etc/nsswitch.conf",
            "/etc/nsswitch.conf",
            "--ro-bind",
            "/env/python",
            "/env/python",
            "--ro-bind",
            "/env/guest/g1",
            "/moonpool",
            "--proc",
            "/proc",
            "--size",
            "65536",
            "--tmpfs",
            "/dev",
            "--dev-bind",
            "/dev/null",
            "/dev/null",
            "--dev-bind",
            "/dev/zero",
            "/dev/zero",
            "--dev-bind",
            "/dev/full",
            "/dev/full",
            "--dev-bind",
            "/dev/random",
            "/dev/random",
            "--dev-bind",
            "/dev/urandom",
            "/dev/urandom",
            "--dev-bind",
            "/dev/tty",
            "/dev/tty",
            "--symlink",
            "/proc/self/fd",
            "/dev/fd",
            "--symlink",
            "/proc/self/fd/0",
            "/dev/stdin",
            "--symlink",
            "/proc/self/fd/1",
            "/dev/stdout",
            "--symlink",
            "/proc/self/fd/2",
            "/dev/stderr",
            "--symlink",
            "pts/ptmx",
            "/dev/ptmx",
            "--dir",
            "/dev/pts",
            "--size",
            "1048576",
            "--tmpfs",
            "/dev/shm",
            "--size",
            "33554432",
            "--tmpfs",
            "/tmp",
            "--dir",
            "/quota",
            "--dir",
            "/workspace",
            "--dir",
            "/home/user",
            "--dir",
            "/data",
            "--dir",
            "/wrappers",
            "--symlink",
            "/workspace",
            "/home/baponi",
            "--ro-bind",
            "/run/slots/s1",
            "/slots",
            "--chdir",
            "/",
            "--remount-ro",
            "/dev",
            "--remount-ro",
            "/",
            "--seccomp",
            "9",
            "--",
            "python",
            "-c",
            "pass",
        ]
    )


def test_the_outer_sandbox_of_one_execution_differs_in_this_alone() -> None:
    zygote, execution = (
        set(plan) for plan in (zygote_outer_sandbox(PARTS, []), execution_outer_sandbox(PARTS, [], info_fd=7))
    )
    assert sorted(execution - zygote) == snapshot(
        ["--as-pid-1", "--cap-add", "--info-fd", "/slots/s1", "7", "CAP_SETPCAP", "CAP_SYS_ADMIN", "CAP_SYS_RESOURCE"]
    )
    assert sorted(zygote - execution) == snapshot(["/slots"])


def test_the_interpreter_sees_no_path_but_ours() -> None:
    assert guest_command(IMAGE, "run()") == snapshot(
        [
            "/env/python/bin/python3.11",
            "-s",
            "-P",
            "-S",
            "-B",
            "-X",
            "utf8",
            "-c",
            "import sys; sys.path += ['/moonpool', '/moonpool/moonpool_guest/path', '/env/data/site']; run()",
        ]
    )


def options(plan: list[str], name: str) -> list[str]:
    return [plan[index + 1] for index, word in enumerate(plan) if word == name]


@pytest.mark.parametrize("plan", [zygote_outer_sandbox(PARTS, ["x"]), execution_outer_sandbox(PARTS, ["x"], info_fd=7)])
def test_every_outer_sandbox_is_sealed_last_and_binds_nothing_to_write(plan: list[str]) -> None:
    sealed = plan[plan.index("--seccomp") - 4 :]
    assert sealed == ["--remount-ro", "/dev", "--remount-ro", "/", "--seccomp", "9", "--", "x"]
    assert "--bind" not in plan
    assert "--share-net" not in plan
    assert "--clearenv" in plan
    assert {f"--unshare-{name}" for name in ("user", "ipc", "pid", "net", "uts", "cgroup")} <= set(plan)
    for index, word in enumerate(plan):
        if word == "--tmpfs":
            assert "--size" in plan[index - 4 : index], plan[index + 1]


def test_an_interpreter_below_usr_local_keeps_it() -> None:
    parts = OuterSandboxParts(**{**{name: getattr(PARTS, name) for name in PARTS.__slots__}, "image": ImageSpec(
        name="i", digest="d", python=Path("/usr/local/bin/python3"), guest=Path("/g"))})  # fmt: skip
    assert "/usr/local" not in options(zygote_outer_sandbox(parts, []), "--tmpfs")
    assert "/usr/local" in options(zygote_outer_sandbox(PARTS, []), "--tmpfs")


def test_an_outer_sandbox_never_starts_as_kernel_uid_0() -> None:
    async def start() -> None:
        with pytest.raises(AssertionError, match="kernel uid 0"):
            await OuterSandboxStarter().start(["/bin/true"], Identity(0), pass_fds=(), stdout=None, stderr=None)

    anyio.run(start)


# --- specs


def test_every_limit_is_set_and_told_as_a_number() -> None:
    spec = SandboxSpec(image=IMAGE)
    told = spec.to_confinement("slot")
    assert told == snapshot(
        {
            "slot": "slot",
            "tmpfs_bytes": 268435456,
            "tmpfs_inodes": 16384,
            "limits": {
                "AS": 2147483648,
                "NPROC": 64,
                "NOFILE": 256,
                "FSIZE": 268435456,
                "CPU": 602,
                "CORE": 1,
                "MEMLOCK": 0,
                "MSGQUEUE": 0,
                "SIGPENDING": 256,
            },
        }
    )
    assert told["slot"] == "slot"


def test_with_control_groups_memory_is_what_may_be_written_to_and_the_groups_count_first() -> None:
    alone, grouped = (SandboxLimits().to_rlimits(grouped=grouped) for grouped in (False, True))
    changed = {name: value for name, value in grouped.items() if alone.get(name) != value}
    assert changed == {"AS": 66 * 1024**3, "DATA": 2 * 1024**3, "NPROC": 80}


def test_specs_with_other_limits_scopes_or_images_are_not_interchangeable() -> None:
    base = SandboxSpec(image=IMAGE)
    assert base.key == SandboxSpec(image=IMAGE).key
    assert base.key != SandboxSpec(image=IMAGE, scope="other").key
    assert base.key != SandboxSpec(image=IMAGE, limits=SandboxLimits(process_count_max=3)).key


# --- slots


def make_tree(folder: Path, text: str) -> Path:
    (folder / "servers" / "one").mkdir(parents=True)
    (folder / "servers" / "one" / "__init__.py").write_text(text, encoding="utf-8")
    return folder


def test_publishing_shows_a_tree_and_another_and_the_first_again(tmp_path: Path) -> None:
    slots = SlotFolder(tmp_path / "slots")
    slot = slots.create("s")
    for text in ("a", "b", "a"):
        tree = tmp_path / text
        slots.publish("s", tree if tree.exists() else make_tree(tree, text), f"sha256:{text}")
        assert (slot / "current" / "servers" / "one" / "__init__.py").read_text(encoding="utf-8") == text
    assert sorted(path.name for path in slot.iterdir()) == ["current", "tree-a", "tree-b"]


def test_a_published_tree_stays_when_its_source_is_deleted(tmp_path: Path) -> None:
    slots = SlotFolder(tmp_path / "slots")
    slot = slots.create("s")
    tree = make_tree(tmp_path / "tree", "x")
    slots.publish("s", tree, "sha256:x")
    (tree / "servers" / "one" / "__init__.py").unlink()
    assert (slot / "current" / "servers" / "one" / "__init__.py").read_text(encoding="utf-8") == "x"


def test_what_a_failed_publish_left_does_not_stop_the_next(tmp_path: Path) -> None:
    slots = SlotFolder(tmp_path / "slots")
    slot = slots.create("s")
    (slot / ".tree-x").mkdir()
    (slot / ".current").symlink_to("nowhere")
    slots.publish("s", make_tree(tmp_path / "tree", "x"), "sha256:x")
    assert (slot / "current" / "servers" / "one" / "__init__.py").read_text(encoding="utf-8") == "x"


def test_packages_are_swapped_whole_and_those_before_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slots, first, second = SlotFolder(tmp_path / "slots"), tmp_path / "first", tmp_path / "second"
    slot = slots.create("s")
    for folder in (first, second):
        folder.mkdir()
        (folder / f"{folder.name}.py").touch()
    slots.publish_packages("s", [first], "1" * 64)
    with pytest.raises(FileNotFoundError):
        slots.publish_packages("s", [first, tmp_path / "evicted"], "2" * 64)
    assert sorted(path.name for path in slot.iterdir()) == ["packages", f"packages-{'1' * 32}"]
    assert [path.name for path in (slot / "packages").iterdir()] == ["first.py"]
    held: list[bool] = []
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: held.append(slots._publishing.locked()))
    slots.publish_packages("s", [second], "4" * 64)
    assert held == [True]  # another of the same slot could be shown already
    monkeypatch.undo()
    slots.publish_packages("s", [first, second], "3" * 64)
    assert sorted(path.name for path in slot.iterdir()) == ["packages", f"packages-{'3' * 32}"]
    assert sorted(path.name for path in (slot / "packages").iterdir()) == ["first.py", "second.py"]


def test_slots_are_open_to_read_under_any_umask(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", "x")
    before = os.umask(0o077)
    try:
        slots = SlotFolder(tmp_path / "run" / "slots")
        slots.create("s")
        slots.publish("s", tree, "sha256:x")
    finally:
        os.umask(before)
    folders = [path for path in slots.root.rglob("*") if path.is_dir() and not path.is_symlink()]
    folders += [slots.root, slots.root.parent]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o755}


def test_a_tree_on_another_file_system_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(source: str, target: str, *, follow_symlinks: bool) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source, None, target)

    monkeypatch.setattr(os, "link", link)
    slots = SlotFolder(tmp_path / "slots")
    slots.create("s")
    slots.publish("s", make_tree(tmp_path / "tree", "x"), "sha256:x")

    assert (slots.root / "s" / "current" / "servers" / "one" / "__init__.py").read_text(encoding="utf-8") == "x"


@pytest.mark.anyio
async def test_removing_a_slot_twice_or_one_that_never_was_is_fine(tmp_path: Path) -> None:
    slots = SlotFolder(tmp_path / "slots")
    slots.create("s")
    slots.remove("s")
    slots.remove("s")
    assert list(slots.root.iterdir()) == []


@pytest.mark.anyio
async def test_a_slot_that_showed_one_tree_serves_the_next_that_wants_it_and_nobody_else(tmp_path: Path) -> None:
    slots = SlotFolder(tmp_path / "scope" / "slots")
    trees = {text: TreeRef(path=make_tree(tmp_path / text, text), digest=f"sha256:{text}") for text in "ab"}
    await slots.open("one", trees["a"])
    made = (slots.root / "one").stat().st_ino
    slots.remove("one")
    assert list(slots.root.iterdir()) == []  # no sandbox sees what waits

    await slots.open("other", trees["b"])
    await slots.open("none", None)
    await slots.open("two", trees["a"])
    assert ((slots.root / "two").stat().st_ino, slots.shows("two", "sha256:a")) == (made, True)
    assert (slots.root / "other" / "current" / "servers" / "one" / "__init__.py").read_text(encoding="utf-8") == "b"
    assert list((slots.root / "none").iterdir()) == []


@pytest.mark.anyio
async def test_a_slot_that_was_to_serve_again_and_is_gone_is_made_anew(tmp_path: Path) -> None:
    slots = SlotFolder(tmp_path / "scope" / "slots")
    tree = TreeRef(path=make_tree(tmp_path / "a", "a"), digest="sha256:a")
    await slots.open("one", tree)
    slots.remove("one")
    shutil.rmtree(tmp_path / "scope" / "spare" / "one")
    await slots.open("two", tree)
    assert (slots.root / "two" / "current" / "servers" / "one" / "__init__.py").read_text(encoding="utf-8") == "a"


@pytest.mark.anyio
async def test_a_slot_that_showed_two_trees_or_none_is_used_no_more(tmp_path: Path) -> None:
    slots = SlotFolder(tmp_path / "scope" / "slots")
    tree = TreeRef(path=make_tree(tmp_path / "a", "a"), digest="sha256:a")
    await slots.open("two", tree)
    slots.publish("two", make_tree(tmp_path / "b", "b"), "sha256:b")
    slots.publish("two", tree.path, tree.digest)
    await slots.open("none", None)
    for name in ("two", "none"):
        slots.remove(name)
    await slots.wait_all_removed()
    assert all(list((tmp_path / "scope" / hidden).iterdir()) == [] for hidden in ("spare", "doomed"))


@pytest.mark.anyio
async def test_a_slot_with_a_part_of_another_tree_is_used_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = SlotFolder(tmp_path / "scope" / "slots")
    trees = {text: TreeRef(path=make_tree(tmp_path / text, text), digest=f"sha256:{text}") for text in "ab"}
    with monkeypatch.context() as patch:
        patch.delattr(os, "link")
        with pytest.raises(AttributeError):
            await slots.open("one", trees["b"])
    slots.publish("one", trees["a"].path, trees["a"].digest)
    slots.remove("one")
    await slots.open("two", trees["a"])
    assert sorted(path.name for path in (slots.root / "two").iterdir()) == ["current", "tree-a"]


@pytest.mark.anyio
async def test_only_so_many_slots_wait_for_a_sandbox(tmp_path: Path) -> None:
    slots = SlotFolder(tmp_path / "scope" / "slots")
    trees = [
        TreeRef(path=make_tree(tmp_path / f"{number}", "x"), digest=f"sha256:{number}")
        for number in range(_SPARES_MAX + 2)
    ]
    for tree in trees:
        await slots.open(tree.path.name, tree)
    for tree in trees:
        slots.remove(tree.path.name)
    await slots.wait_all_removed()
    waiting = {path.name for path in (tmp_path / "scope" / "spare").iterdir()}
    assert waiting == {tree.path.name for tree in trees[2:]}


# --- identities


def test_no_two_outer_sandboxes_of_root_have_a_uid_in_common_in_one_process_or_in_two(tmp_path: Path) -> None:
    hosts = [SingleUids(Identities(own_uid=0, locks=tmp_path / "uids")) for _ in range(2)]
    taken = [(host, host.take(scope)) for host in hosts for scope in ("a", "b") for _ in range(SLICE)]
    assert len({who.uid for _, who in taken}) == 4 * SLICE
    assert all(who.uid is not None and UID_FIRST < who.uid < UID_FIRST + UID_COUNT < 2**31 for _, who in taken)
    for host, who in taken:
        host.give_back(who)


def test_a_uid_is_used_again_after_all_others(tmp_path: Path) -> None:
    uids = SingleUids(Identities(own_uid=0, locks=tmp_path / "uids"))
    kept, first = uids.take("a"), uids.take("a")
    uids.give_back(first)
    later = [uids.take("a") for _ in range(SLICE - 2)]
    assert (later.index(first), len({*later})) == (SLICE - 3, SLICE - 2)
    for who in (kept, *later):
        uids.give_back(who)


def test_an_ordinary_user_serves_one_scope_as_itself() -> None:
    identities = Identities(own_uid=1000)
    uids = SingleUids(identities)
    assert uids.take("a") == uids.take("a") == Identity(None)
    with pytest.raises(SandboxStartError, match="one tenant"):
        identities.slice_for("b")


def test_the_uids_end_with_an_error_before_they_are_used_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "UID_COUNT", 4 * SLICE)
    ours, theirs = (Identities(own_uid=0, locks=tmp_path / "uids") for _ in range(2))
    slices = [identities.slice_for("a") for identities in (ours, theirs) for _ in range(2)]
    assert len({one.first for one in slices if one}) == 4
    with pytest.raises(SandboxStartError, match="in use"):
        ours.slice_for("a")
    for one in slices:
        assert one is not None
        one.close()
    again = theirs.slice_for("a")
    assert again is not None
    again.close()


def test_uids_that_cannot_be_reserved_are_one_sentence_with_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SandboxStartError, match=r"uids are reserved in .*file/uids, which root must be able to write"):
        Identities(own_uid=0, locks=tmp_path / "file" / "uids").slice_for("a")


def mounted_over(command: list[str]) -> set[Path]:
    """Where an outer sandbox mounts something of its own, not of the host, and the folders above."""
    above = {
        target
        for perms, _, word, target in zip(*(command[at:] for at in range(4)), strict=False)
        if (perms, word) == ("--perms", "--dir")
    }
    words = ("--tmpfs", "--dir", "--proc")
    return {Path(target) for word, target in pairwise(command) if word in words and target not in above}


def test_a_sandbox_with_another_uid_than_its_outer_sandbox_can_pass_every_folder_of_its_root() -> None:
    command = zygote_outer_sandbox(PARTS, ["x"])
    made = {command[at + 3] for at, word in enumerate(command) if command[at : at + 3] == ["--perms", "0755", "--dir"]}
    binds = [command[at + 2] for at, word in enumerate(command) if word.startswith("--ro-bind")]
    above = {str(folder) for path in (*binds, "/home/user") for folder in Path(path).parents}
    assert above - made == {"/", *(folder for folder in above if folder.startswith("/usr"))}


def test_every_place_that_sandboxes_mount_over_counts_as_covered() -> None:
    places = mounted_over(zygote_outer_sandbox(PARTS, ["x"])) | mounted_over(
        execution_outer_sandbox(PARTS, ["x"], info_fd=8)
    )
    own = {Path(place) for _, place, _ in confine._PLACES}
    assert len(places) > 7
    assert [place for place in {*places, *own, Path(confine._QUOTA)} if not covers(place / "data")] == []


@pytest.mark.parametrize(
    ("folder", "covered"),
    [
        ("/tmp/x", True),
        ("/tmp", True),
        ("/var/../tmp/x", True),
        ("/home/user/.local/share/moonpool", True),
        ("/usr/local/share/moonpool", True),
        ("/home/username/.local/share/moonpool", False),
        ("/tmpfs/x", False),
        ("/var/tmp/x", False),
        ("/var/lib/moonpool", False),
    ],
)
def test_a_folder_is_covered_when_something_of_the_sandbox_is_there(folder: str, *, covered: bool) -> None:
    assert covers(Path(folder)) is covered


def test_a_moved_image_shows_the_same_folders_elsewhere_and_nothing_else() -> None:
    root = "/tmp/d/environments"
    at_home, below_tmp = (
        replace(
            IMAGE,
            python=Path(f"{place}/python/bin/python3.11"),
            binds=(Path(f"{place}/python"), Path("/opt/other")),
            site_paths=(Path(f"{place}/data/site"),),
            variables={"LD_LIBRARY_PATH": f"{place}/python/lib:/opt/lib", "MPLCONFIGDIR": "/tmp/matplotlib", "N": "1"},
            moved=Path(place) if place == root else None,
        )
        for place in ("/environments", root)
    )
    plans = [
        execution_outer_sandbox(replace(PARTS, image=image), guest_command(image, "pass"), info_fd=8)
        for image in (at_home, below_tmp)
    ]
    different = [(one, other) for one, other in zip(*plans, strict=True) if one != other]
    assert different == [("/environments/python", f"{root}/python")]  # the source of one bind
