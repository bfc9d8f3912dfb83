"""Finding out which control groups there are: text from /proc, folders that were left, modes that do not work."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moonpool.core.errors import HostUnfitError
from moonpool.sandboxes import cgroups, cgroups_v1, cgroups_v2
from moonpool.sandboxes.base import SandboxLimits, SandboxStartError
from moonpool.sandboxes.cgroup_mounts import parse_mounts, parse_own_groups, v1_folders, v2_folder
from moonpool.sandboxes.cgroups import LimitGroups, LimitsMode, open_groups, owner_name, sweep, v2_groups
from moonpool.sandboxes.control_group import create_group
from moonpool.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

PURE = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
HYBRID = """\
33 32 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
34 32 0:31 / /sys/fs/cgroup/cpu,cpuacct rw shared:3 - cgroup cgroup rw,cpu,cpuacct
35 32 0:32 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
36 32 0:33 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
37 32 0:34 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
38 32 0:35 / /sys/fs/c\\040d rw - cgroup cgroup rw,freezer
"""
OWN = "9:memory:/work/a\n8:cpu,cpuacct:/\n7:pids:/work\n1:name=systemd:/\n0::/user.slice\n"


def test_each_controller_has_its_own_folder_in_version_1() -> None:
    assert v1_folders(parse_mounts(HYBRID), parse_own_groups(OWN)) == {
        "memory": Path("/sys/fs/cgroup/memory/work/a"),
        "cpu": Path("/sys/fs/cgroup/cpu,cpuacct"),
        "cpuacct": Path("/sys/fs/cgroup/cpu,cpuacct"),
        "pids": Path("/sys/fs/cgroup/pids/work"),
    }


@pytest.mark.parametrize(
    ("mounts", "own", "expected"),
    [
        pytest.param(PURE, "0::/a/b c\n", "/sys/fs/cgroup/a/b c", id="a service"),
        pytest.param(PURE, "0::/\n", "/sys/fs/cgroup", id="the root, or a namespace of our own"),
        pytest.param(
            PURE.replace(" / ", " /docker/x ", 1), "0::/docker/x/y\n", "/sys/fs/cgroup/y", id="a part mounted"
        ),
        pytest.param(PURE.replace(" / ", " /docker/x ", 1), "0::/other\n", "/sys/fs/cgroup", id="outside the part"),
        pytest.param(HYBRID, OWN, "/sys/fs/cgroup/unified/user.slice", id="both versions"),
        pytest.param(HYBRID.replace("cgroup2", "tmpfs"), OWN, None, id="not mounted"),
        pytest.param(PURE, "nonsense\n::\n1:2\n", None, id="not in it"),
    ],
)
def test_there_is_one_folder_in_version_2(mounts: str, own: str, expected: str | None) -> None:
    assert v2_folder(parse_mounts(mounts), parse_own_groups(own)) == (Path(expected) if expected else None)


# --- modes that do not work


def process(folder: Path, mounts: str, own: str) -> Path:
    """A /proc/self."""
    folder.mkdir(exist_ok=True)
    (folder / "mountinfo").write_text(mounts, encoding="utf-8")
    (folder / "cgroup").write_text(own, encoding="utf-8")
    return folder


def delegated(folder: Path, controllers: str = "cpu memory pids") -> Path:
    """What a delegated folder of version 2 holds."""
    folder.mkdir(parents=True)
    for name, text in {"cgroup.controllers": controllers, "cgroup.procs": "", "cgroup.subtree_control": ""}.items():
        (folder / name).write_text(text, encoding="ascii")
    return folder


def v2_at(point: Path) -> str:
    return f"1 1 0:1 / {point} rw - cgroup2 cgroup2 rw\n"


def test_a_delegated_folder_hands_its_controllers_down(tmp_path: Path) -> None:
    base = delegated(tmp_path / "cg" / "service")
    found = cgroups_v2.find_base(process(tmp_path / "proc", v2_at(tmp_path / "cg"), "0::/service\n"))
    assert found == base
    assert (base / "cgroup.subtree_control").read_text(encoding="ascii") == "+memory +pids +cpu"


def test_whoever_stands_in_the_leaf_supervisor_uses_the_folder_above_it(tmp_path: Path) -> None:
    base = delegated(tmp_path / "cg" / "service")
    delegated(base / "supervisor")
    found = cgroups_v2.find_base(process(tmp_path / "proc", v2_at(tmp_path / "cg"), "0::/service/supervisor\n"))
    assert found == base


def test_missing_controllers_are_named(tmp_path: Path) -> None:
    delegated(tmp_path / "cg", controllers="hugetlb cpu")
    with pytest.raises(LookupError, match="memory, pids"):
        cgroups_v2.find_base(process(tmp_path / "proc", v2_at(tmp_path / "cg"), "0::/\n"))


def test_a_folder_shared_with_others_is_left_alone(tmp_path: Path) -> None:
    base = delegated(tmp_path / "cg")
    (base / "cgroup.procs").write_text(f"1\n{os.getpid()}\n", encoding="ascii")
    with pytest.raises(LookupError, match="holds 1 other processes"):
        cgroups_v2._stand_aside(base)


def test_controllers_of_version_1_that_are_not_mounted_are_named(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="memory, pids, cpu, cpuacct"):
        cgroups_v1.find_bases(process(tmp_path / "proc", PURE, "0::/\n"))


@pytest.mark.parametrize("name", ["cgroup1", "cgroup2"])
@pytest.mark.anyio
async def test_a_mode_asked_for_by_name_is_refused_with_the_remedy(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "_PROCESS", process(tmp_path / "proc", "", ""))
    groups = open_groups(name)
    assert f"limits={name} does not work here" in groups.missing[0]
    assert ("Delegate=cpu memory pids" in groups.missing[0]) is (name == "cgroup2")
    assert "MOONPOOL_LIMITS=auto" in groups.missing[0]
    with pytest.raises(SandboxStartError, match="does not work here"):
        await groups.open("any", SandboxLimits())


def test_auto_takes_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_PROCESS", process(tmp_path / "proc", "", ""))
    groups = open_groups("auto")
    assert (groups.mode, groups.missing) == (LimitsMode.RLIMITS, ())


@pytest.mark.anyio
async def test_an_application_does_not_start_in_a_mode_that_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps import open_app

    monkeypatch.setattr(cgroups, "_PROCESS", process(tmp_path / "proc", "", ""))
    with pytest.raises(HostUnfitError, match="limits=cgroup2"):
        async with open_app(limits="cgroup2"):
            pass


def test_limits_is_one_of_four_words() -> None:
    with pytest.raises(Exception, match="auto, cgroup1, cgroup2 or rlimits"):
        Settings.load({"MOONPOOL_LIMITS": "none"})


# --- what is written


LIMITS = SandboxLimits(memory_bytes_max=300, disk_bytes_max=20, process_count_max=7, cpu_cores_max=0.5)


def test_version_1_bounds_memory_and_files_together_swap_included() -> None:
    bounds = {(bound.controller, bound.file): bound.value for bound in cgroups_v1.VERSION.bounds(LIMITS)}
    assert bounds == {
        ("memory", "memory.limit_in_bytes"): 320,
        ("memory", "memory.memsw.limit_in_bytes"): 320,
        ("memory", "memory.swappiness"): 0,
        ("pids", "pids.max"): 7,
        ("cpu", "cpu.cfs_quota_us"): 50_000,
    }


def test_version_2_bounds_the_same_and_ends_the_whole_sandbox() -> None:
    bounds = {(bound.controller, bound.file): bound.value for bound in cgroups_v2.VERSION.bounds(LIMITS)}
    assert bounds == {
        ("memory", "memory.max"): 320,
        ("memory", "memory.swap.max"): 0,
        ("memory", "memory.oom.group"): 1,
        ("pids", "pids.max"): 7,
        ("cpu", "cpu.max"): 50_000,
    }


def test_no_quota_is_set_for_more_cores_than_there_are() -> None:
    limits = SandboxLimits(cpu_cores_max=float(os.cpu_count() or 1))
    assert [bound for bound in cgroups_v1.VERSION.bounds(limits) if bound.controller == "cpu"] == []


def test_a_bound_that_cannot_be_written_fails_and_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"memory\.limit_in_bytes"):
        create_group(cgroups_v1.VERSION, dict.fromkeys(cgroups_v1.CONTROLLERS, tmp_path / "group"), LIMITS)
    assert list(tmp_path.iterdir()) == []


# --- what was left


def _dead(name: str) -> str:
    word, namespace, pid, started, token = name.split("-")
    return "-".join((word, namespace, pid, str(int(started) + 1), token))


def _elsewhere(name: str) -> str:
    word, namespace, *rest = name.split("-")
    return "-".join((word, str(int(namespace) + 1), *rest))


@pytest.mark.parametrize(
    ("naming", "stays"),
    [
        pytest.param(_dead, False, id="of an owner that is gone, its number used again"),
        pytest.param(str, True, id="of an owner that lives"),
        pytest.param(lambda name: _dead(_elsewhere(name)), True, id="of another pid namespace"),
        pytest.param(lambda _: "moonpool-of-somebody", True, id="of somebody else"),
    ],
)
def test_folders_of_owners_that_are_gone_are_swept(tmp_path: Path, naming: Callable[[str], str], stays: bool) -> None:
    folder = tmp_path / naming(owner_name())
    (folder / "sandbox").mkdir(parents=True)
    sweep([tmp_path, tmp_path])
    assert folder.exists() is stays


def test_what_cannot_be_removed_does_not_stop_the_sweep(tmp_path: Path) -> None:
    full, empty = (tmp_path / _dead(owner_name()) for _ in range(2))
    (full / "sandbox" / "busy").mkdir(parents=True)
    empty.mkdir()
    sweep([tmp_path])
    assert (full.exists(), empty.exists()) == (True, False)


def test_a_folder_that_was_tidied_away_is_made_again(tmp_path: Path) -> None:
    groups = v2_groups(tmp_path, cgroups_v2.VERSION, ())
    groups.make_tops()
    groups.remove_tops()
    with pytest.raises(OSError, match=r"memory\.max"):  # the folder of a disk has no such file
        groups.create("any", LIMITS)
    assert [top.is_dir() for top in set(groups.tops.values())] == [True]
    groups.remove_tops()


@pytest.mark.anyio
async def test_a_group_that_cannot_be_made_is_a_start_error(tmp_path: Path) -> None:
    groups = v2_groups(tmp_path, cgroups_v2.VERSION, ())
    groups.make_tops()
    with pytest.raises(SandboxStartError, match="limits"):
        await groups.open("any", LIMITS)


def test_without_groups_nothing_is_claimed() -> None:
    assert (LimitGroups().mode, LimitGroups().missing) == (LimitsMode.RLIMITS, ())
