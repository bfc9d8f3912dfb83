"""Control groups whose files cannot be written or read: nothing stays open, nothing is left, every end is told."""

from __future__ import annotations

import errno
import logging
import os
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from moonpool.sandboxes import cgroups, cgroups_v2
from moonpool.sandboxes.base import ExitCause, SandboxLimits, SandboxSpec, SandboxStartError
from moonpool.sandboxes.cgroups import LimitsMode, open_groups, v2_groups
from moonpool.sandboxes.control_group import Bound, ControlGroup, Count
from moonpool.sandboxes.group_files import end_processes, write_text
from moonpool.sandboxes.limit_watch import LimitWatch
from moonpool.sandboxes.short_work import ShortWork
from sandboxes.conftest import REAL
from sandboxes.groups import best_groups
from sandboxes.pools import Clock
from sandboxes.probe import Probe, open_fds

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.sandboxes.base import ImageSpec
    from moonpool.sandboxes.cgroups import LimitGroups

pytestmark = pytest.mark.anyio

LIMITS = SandboxLimits(memory_bytes_max=192 << 20, disk_bytes_max=8 << 20)
UNREADABLE = pytest.mark.parametrize(
    "error", [OSError(errno.ENODEV, "No such device"), LookupError("no line"), ValueError("no number")], ids=repr
)


def failing(error: Exception, *, times: int = 1000) -> object:
    """A method that raises `error` at first."""
    left = times

    def method(*_: object, **__: object) -> frozenset[object]:
        nonlocal left
        left -= 1
        if left >= 0:
            raise error
        return frozenset()

    return method


@pytest.fixture
async def groups() -> AsyncGenerator[LimitGroups]:
    async with best_groups() as found:
        yield found


@asynccontextmanager
async def sandbox_in(
    name: str, state_dir: Path, image: ImageSpec, groups: LimitGroups, limits: SandboxLimits = LIMITS
) -> AsyncGenerator[Probe]:
    backend = REAL[name](state_dir, groups)
    if missing := backend.missing_features():
        pytest.skip(f"{name}: {missing}")
    try:
        with anyio.fail_after(20):
            yield Probe(await backend.open_sandbox(SandboxSpec(image=image, limits=limits)))
    finally:
        with anyio.fail_after(20):
            await backend.close()


# --- counters that cannot be read


@UNREADABLE
@pytest.mark.parametrize("name", sorted(REAL))
async def test_a_sandbox_whose_counters_cannot_be_read_works_and_ends(
    name: str,
    state_dir: Path,
    image: ImageSpec,
    groups: LimitGroups,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with sandbox_in(name, state_dir, image, groups) as probe:
        monkeypatch.setattr(ControlGroup, "_read", failing(error))
        assert (await probe.run("result = 1")).result == 1
        assert probe.sandbox.limits_hit() is None
        run = await probe.run_to_exit("import os, signal; os._exit(3)")
        assert run.exit is not None
        assert (run.exit.cause, run.exit.exit_code) == (ExitCause.EXITED, 3)
        await probe.sandbox.close()
        assert [top for top in groups.tops.values() if any(top.glob("*/"))] == []


@pytest.mark.parametrize("name", sorted(REAL))
async def test_a_sandbox_whose_limits_cannot_be_settled_ends_all_the_same(
    name: str, state_dir: Path, image: ImageSpec, groups: LimitGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sandbox_in(name, state_dir, image, groups) as probe:
        with monkeypatch.context() as patched:
            patched.setattr(LimitWatch, "settle", failing(RuntimeError("a bug")))
            before = open_fds()
            probe.sandbox.kill()
            assert (await probe.sandbox.wait_exited()).cause is ExitCause.KILLED
            assert len(open_fds()) < len(before)  # its pidfd, channel and pipes


@UNREADABLE
async def test_a_sandbox_whose_processor_time_cannot_be_looked_at_is_ended(
    state_dir: Path, image: ImageSpec, groups: LimitGroups, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sandbox_in("zygote", state_dir, image, groups, replace(LIMITS, cpu_s_max=1)) as probe:
        monkeypatch.setattr(ControlGroup, "_read", failing(error))
        run = await probe.run_to_exit("import time\ntime.sleep(60)")
        assert run.exit is not None
        assert (run.exit.cause, run.exit.limit) == (ExitCause.KILLED, None)


def test_a_counter_without_its_line_names_file_and_key(tmp_path: Path) -> None:
    folder = tmp_path / "group"
    folder.mkdir()
    for file in ("cgroup.procs", "memory.events", "pids.events", "cpu.stat"):
        (folder / file).write_text("other 1\n", encoding="ascii")
    group = ControlGroup(cgroups_v2.VERSION, dict.fromkeys(cgroups_v2.CONTROLLERS, folder), LIMITS)
    with pytest.raises(LookupError, match=r"cpu\.stat has no line 'usage_usec'"):
        group.cpu_s()
    group.close()


# --- files that cannot be written or opened


def test_a_group_that_lacks_a_file_leaves_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").touch()
    before = open_fds()
    with pytest.raises(OSError, match=r"memory\.events"):
        ControlGroup(cgroups_v2.VERSION, dict.fromkeys(cgroups_v2.CONTROLLERS, tmp_path), LIMITS)
    assert open_fds() <= before


def test_a_write_that_is_refused_names_its_file() -> None:
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        write_text(Path("/dev/full"), "1")


async def test_a_bound_that_is_refused_is_a_start_error_that_names_the_file(tmp_path: Path) -> None:
    version = replace(cgroups_v2.VERSION, bounds=lambda _: (Bound("memory", "/dev/full", 1),))
    groups = v2_groups(tmp_path, version, ())
    groups.make_tops()
    with pytest.raises(SandboxStartError, match="/dev/full"):
        await groups.open("any", LIMITS)
    await groups.close()
    assert list(tmp_path.iterdir()) == []


# --- what is found at start


def ours(groups: LimitGroups) -> set[Path]:
    return {folder for top in groups.tops.values() for folder in top.parent.glob(f"moonpool-*-{os.getpid()}-*")}


@UNREADABLE
@pytest.mark.parametrize("method", ["hits", "cpu_s"])
async def test_groups_that_cannot_be_read_are_passed_over_with_a_warning_and_leave_nothing(
    groups: LimitGroups,
    method: str,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    before, descriptors = ours(groups), open_fds()
    monkeypatch.setattr(ControlGroup, method, failing(error))
    found = open_groups("auto")
    assert (found.mode, found.missing, len(found.passed_over)) == (LimitsMode.RLIMITS, (), 2)
    assert ours(groups) == before
    assert open_fds() <= descriptors
    named = "cgroup2" if groups.mode is LimitsMode.CGROUP2 else "cgroup1"
    assert any(f"limits={named} does not work here" in line and str(error) in line for line in caplog.messages)
    assert open_groups(named).missing


async def test_an_error_that_does_not_come_again_costs_no_groups(
    groups: LimitGroups, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ControlGroup, "hits", failing(OSError(errno.EINTR, "Interrupted"), times=1))
    found = open_groups("auto")
    await found.close()
    assert (found.mode, found.passed_over, caplog.messages) == (groups.mode, (), [])


async def test_a_machine_without_control_groups_is_no_reason_to_warn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("mountinfo", "cgroup"):
        (tmp_path / name).touch()
    monkeypatch.setattr(cgroups, "_PROCESS", tmp_path)
    found = open_groups("auto")
    assert [reason.partition(" does")[0] for reason in found.passed_over] == ["limits=cgroup2", "limits=cgroup1"]
    assert caplog.messages == []


# --- who is still in a group, and what is left of it


async def test_whoever_is_left_in_a_group_ends_with_it(groups: LimitGroups) -> None:
    group = await groups.open("left", LIMITS)
    assert isinstance(group, ControlGroup)
    async with await anyio.open_process(["/bin/sleep", "60"]) as sleeper:
        for place in group.places:
            (place / "cgroup.procs").write_text(str(sleeper.pid), encoding="ascii")
        group.discard()
        with anyio.fail_after(30):
            assert await sleeper.wait() == -9
    await group.wait_discarded()
    assert [place for place in group.places if place.exists()] == []


async def test_the_end_removes_every_group_that_is_left(groups: LimitGroups) -> None:
    found = open_groups("auto")
    group = await found.open("left", LIMITS)
    assert isinstance(group, ControlGroup)
    group.close()
    await found.close()
    assert [top for top in found.tops.values() if top.exists()] == []


async def test_a_process_that_got_the_number_of_one_that_is_gone_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pidfd_open

    def late(pid: int, flags: int = 0) -> int:
        (tmp_path / "cgroup.procs").write_text("", encoding="ascii")
        return real(pid, flags)

    monkeypatch.setattr(os, "pidfd_open", late)
    async with await anyio.open_process(["/bin/sleep", "60"]) as sleeper:
        (tmp_path / "cgroup.procs").write_text(f"0\n{sleeper.pid}\n", encoding="ascii")
        end_processes(tmp_path)
        sleeper.terminate()
        assert await sleeper.wait() == -15


async def test_what_cannot_be_removed_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    version = replace(cgroups_v2.VERSION, cpu_s=Count(controller="cpu", file="cpu.stat"))
    groups = v2_groups(tmp_path, version, ())
    groups.make_tops()
    left = groups.tops["memory"] / "sandbox"
    (left / "busy").mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        await groups.close()
    assert any(str(left) in line for line in caplog.messages)


async def test_an_opening_that_was_given_up_is_forgotten_once_it_is_removed(groups: LimitGroups) -> None:
    clock = Clock()
    groups._work = ShortWork(clock, count().__next__)
    groups._work.now(lambda: setattr(clock, "now", clock.now + 1))  # that was slow: threads make them from now on
    for number in range(5):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await groups.open(f"given-up-{number}", LIMITS)
    with anyio.fail_after(30):
        while groups._given_up:
            await anyio.lowlevel.checkpoint()
    assert [top for top in groups.tops.values() if any(top.glob("*/"))] == []
