"""Real sandboxes in real control groups: in before any code, bounded as told, watched, and nothing left of them."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.sandboxes import cgroups_v2
from moonpool.sandboxes.base import ExitCause, LimitKind, SandboxLimits, SandboxSpec, SandboxStartError
from moonpool.sandboxes.cgroup_mounts import parse_mounts, parse_own_groups, v2_folder
from moonpool.sandboxes.cgroups import LimitGroups, LimitsMode, v2_groups
from moonpool.sandboxes.control_group import ControlGroup, Count
from sandboxes.conftest import REAL
from sandboxes.groups import best_groups, groups_of
from sandboxes.images import skip_unless_required
from sandboxes.probe import Probe

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.sandboxes.base import ImageSpec
    from moonpool.sandboxes.bubblewrap import BubblewrapBackend
    from moonpool.sandboxes.zygote import ZygoteBackend

pytestmark = pytest.mark.anyio

LIMITS = SandboxLimits(memory_bytes_max=192 << 20, disk_bytes_max=8 << 20, process_count_max=12, cpu_s_max=60)
BURN = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        while True: pass
print("burning", flush=True)
time.sleep(60)
"""


@pytest.fixture
async def groups() -> AsyncGenerator[LimitGroups]:
    async with best_groups() as found:
        yield found


@asynccontextmanager
async def backend_of(name: str, folder: Path, groups: LimitGroups) -> AsyncGenerator[ZygoteBackend | BubblewrapBackend]:
    backend = REAL[name](folder, groups)
    skip_unless_required(name, backend.missing_features())
    try:
        yield backend
    finally:
        with anyio.fail_after(20):
            await backend.close()


@pytest.fixture(params=["zygote", pytest.param("bubblewrap", marks=pytest.mark.slow)])
async def backend(
    request: pytest.FixtureRequest, state_dir: Path, groups: LimitGroups
) -> AsyncGenerator[ZygoteBackend | BubblewrapBackend]:
    async with backend_of(request.param, state_dir, groups) as opened:
        request.node.user_properties.append(("sandbox backend", f"{request.param} in {groups.mode}"))
        yield opened


async def opened(backend: ZygoteBackend | BubblewrapBackend, image: ImageSpec, limits: SandboxLimits = LIMITS) -> Probe:
    with anyio.fail_after(20):
        return Probe(await backend.open_sandbox(SandboxSpec(image=image, limits=limits)))


def places(groups: LimitGroups, probe: Probe) -> dict[str, Path]:
    return {controller: top / probe.sandbox.sandbox_id for controller, top in groups.tops.items()}


async def test_a_sandbox_is_in_its_groups_before_it_is_sent_anything(
    backend: ZygoteBackend | BubblewrapBackend, groups: LimitGroups, image: ImageSpec
) -> None:
    probe = await opened(backend, image)
    pid = probe.sandbox.host_pid
    assert pid is not None
    names = {"cpu": ""} if groups.mode is LimitsMode.CGROUP2 else groups.tops
    assert {Path(groups_of(pid)[name]).name for name in names} == {probe.sandbox.sandbox_id}
    assert backend.limits_mode == groups.mode


async def test_every_child_is_counted(
    backend: ZygoteBackend | BubblewrapBackend, groups: LimitGroups, image: ImageSpec
) -> None:
    probe = await opened(backend, image)
    await probe.run("import subprocess\nchildren = [subprocess.Popen(['/bin/sleep', '60']) for _ in range(4)]")
    count = (places(groups, probe)["pids"] / "pids.current").read_text(encoding="ascii")
    assert int(count) == 5


async def test_a_sandbox_sees_nothing_of_the_groups_above_its_own(
    backend: ZygoteBackend | BubblewrapBackend, groups: LimitGroups, image: ImageSpec
) -> None:
    probe = await opened(backend, image)
    text = str((await probe.run("result = open('/proc/self/cgroup').read()")).result)
    assert "moonpool" not in text
    assert {parse_own_groups(text)[name] for name in (("",) if "" in groups.tops else ("memory", "pids"))} == {"/"}


async def test_memory_files_and_processes_are_bounded_together(
    backend: ZygoteBackend | BubblewrapBackend, groups: LimitGroups, image: ImageSpec
) -> None:
    probe = await opened(backend, image)
    found = places(groups, probe)
    memory = "memory.max" if groups.mode is LimitsMode.CGROUP2 else "memory.limit_in_bytes"
    assert int((found["memory"] / memory).read_text(encoding="ascii")) == 200 << 20
    assert int((found["pids"] / "pids.max").read_text(encoding="ascii")) == 12


async def test_one_process_gets_an_error_for_more_than_its_memory_and_addresses_are_free(
    backend: ZygoteBackend | BubblewrapBackend, image: ImageSpec
) -> None:
    probe = await opened(backend, image)
    run = await probe.run(
        "import mmap\nreserved = mmap.mmap(-1, 10 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ)\n"
        "try: bytearray(300 << 20)\nexcept MemoryError: result = 'refused'"
    )
    assert run.result == "refused"
    assert probe.sandbox.limits_hit() == frozenset()


FILL = "import mmap\nshared = mmap.mmap(-1, 400 << 20)\nfor at in range(0, 400 << 20, 4096): shared[at] = 1"


async def test_a_sandbox_whose_memory_ran_out_says_so(
    backend: ZygoteBackend | BubblewrapBackend, image: ImageSpec
) -> None:
    probe = await opened(backend, image)
    run = await probe.run_to_exit(FILL)
    assert run.exit is not None
    assert (run.exit.cause, run.exit.signal, run.exit.limit) == (ExitCause.SIGNALLED, 9, LimitKind.MEMORY)
    assert probe.sandbox.limits_hit() == {LimitKind.MEMORY}


async def test_an_end_because_everybody_together_had_no_memory_left_is_not_put_down_to_the_sandbox(
    backend: ZygoteBackend | BubblewrapBackend, groups: LimitGroups, image: ImageSpec
) -> None:
    file = "memory.max" if groups.mode is LimitsMode.CGROUP2 else "memory.limit_in_bytes"
    (groups.tops["memory"] / file).write_text(str(96 << 20), encoding="ascii")
    probe = await opened(backend, image)
    run = await probe.run_to_exit(FILL)
    assert run.exit is not None
    assert (run.exit.cause, run.exit.signal, run.exit.limit) == (ExitCause.SIGNALLED, 9, None)
    assert probe.sandbox.limits_hit() == frozenset()


async def test_processes_that_were_refused_are_told_once(
    backend: ZygoteBackend | BubblewrapBackend, image: ImageSpec
) -> None:
    probe = await opened(backend, image)
    code = """
import os, signal
pids = []
try:
    while True:
        pid = os.fork()
        if pid == 0: signal.pause()
        pids.append(pid)
except BlockingIOError: pass
result = len(pids)
"""
    assert (await probe.run(code)).result == 11
    assert [probe.sandbox.limits_hit() for _ in range(2)] == [{LimitKind.PROCESSES}, frozenset()]


async def test_processor_time_counts_for_all_processes_together(
    backend: ZygoteBackend | BubblewrapBackend, image: ImageSpec
) -> None:
    probe = await opened(backend, image, replace(LIMITS, cpu_s_max=1))
    run = await probe.run_to_exit(BURN)
    assert run.exit is not None
    assert run.exit.limit is LimitKind.CPU


async def test_processor_time_counts_between_executions_too(
    backend: ZygoteBackend | BubblewrapBackend, image: ImageSpec
) -> None:
    probe = await opened(backend, image, replace(LIMITS, cpu_s_max=1))
    await probe.run(
        "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()"
    )
    run = await probe.exited()
    assert run.exit is not None
    assert run.exit.limit is LimitKind.CPU


@pytest.mark.parametrize("name", sorted(REAL))
async def test_without_groups_the_first_process_is_watched(name: str, state_dir: Path, image: ImageSpec) -> None:
    async with backend_of(name, state_dir, LimitGroups()) as backend:
        probe = await opened(backend, image, replace(LIMITS, memory_bytes_max=2 << 30, cpu_s_max=1))
        run = await probe.run_to_exit("while True: pass")
    assert run.exit is not None
    assert (run.exit.limit, run.exit.signal) == (LimitKind.CPU, 9)
    assert probe.sandbox.limits_hit() is None


# --- nothing is left


@pytest.mark.parametrize("ending", ["close", "kill", "exit", "memory"])
async def test_no_group_is_left_after_an_ending(
    backend: ZygoteBackend | BubblewrapBackend, groups: LimitGroups, image: ImageSpec, ending: str
) -> None:
    probe = await opened(backend, image)
    found = places(groups, probe)
    assert all(place.is_dir() for place in found.values())
    if ending == "kill":
        probe.start(BURN)
        await probe.said("burning")
        probe.sandbox.kill()
        await probe.exited()
    elif ending != "close":
        await probe.run_to_exit("import os; os._exit(3)" if ending == "exit" else FILL)
    with anyio.fail_after(20):
        await probe.sandbox.close()
    assert [place for place in found.values() if place.exists()] == []


async def test_no_group_is_left_when_a_start_fails(
    backend: ZygoteBackend | BubblewrapBackend, groups: LimitGroups, image: ImageSpec, state_dir: Path
) -> None:
    with anyio.fail_after(20), pytest.raises(SandboxStartError):
        await backend.open_sandbox(SandboxSpec(image=replace(image, guest=state_dir), limits=LIMITS))
    with anyio.fail_after(30):
        while any(place for top in groups.tops.values() for place in top.glob("*/")):  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def test_a_start_that_is_cancelled_leaves_no_group(groups: LimitGroups) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await groups.open("given-up", LIMITS)
    with anyio.fail_after(30):
        await groups.close()
    assert [top for top in groups.tops.values() if top.exists()] == []


# --- version 2, as far as this machine has it: a hierarchy without memory and pids


@pytest.fixture
async def unified() -> AsyncGenerator[LimitGroups]:
    own = v2_folder(
        parse_mounts(Path("/proc/self/mountinfo").read_text(encoding="utf-8")),
        parse_own_groups(Path("/proc/self/cgroup").read_text(encoding="utf-8")),
    )
    if own is None or not os.access(own / "cgroup.procs", os.W_OK):
        pytest.skip("no folder of cgroup v2 may be written to")
    version = replace(
        cgroups_v2.VERSION,
        bounds=lambda _: (),
        oom_kills=Count(controller="memory", file="cgroup.stat", key=b"nr_dying_descendants "),
        forks_refused=Count(controller="pids", file="cgroup.stat", key=b"nr_descendants "),
    )
    found = v2_groups(own, version, ())
    found.make_tops()
    try:
        yield found
    finally:
        await found.close()
    assert [top for top in found.tops.values() if top.exists()] == []


@pytest.mark.parametrize("name", sorted(REAL))
async def test_a_sandbox_joins_is_counted_and_ends_in_version_2(
    name: str, state_dir: Path, image: ImageSpec, unified: LimitGroups
) -> None:
    async with backend_of(name, state_dir, unified) as backend:
        probe = await opened(backend, image, replace(LIMITS, cpu_s_max=1))
        pid = probe.sandbox.host_pid
        assert pid is not None
        assert Path(groups_of(pid)[""]).name == probe.sandbox.sandbox_id
        assert "moonpool" not in str((await probe.run("result = open('/proc/self/cgroup').read()")).result)
        run = await probe.run_to_exit(BURN)
        assert run.exit is not None
        assert run.exit.limit is LimitKind.CPU


async def test_version_2_ends_every_process_of_a_group_at_once(unified: LimitGroups) -> None:
    group = await unified.open("group", LIMITS)
    assert isinstance(group, ControlGroup)
    async with await anyio.open_process(["/bin/sleep", "60"]) as sleeper:
        (group.places[0] / "cgroup.procs").write_text(str(sleeper.pid), encoding="ascii")
        group.kill()
        with anyio.fail_after(30):
            assert await sleeper.wait() == -9
    group.discard()
    await group.wait_discarded()
    assert not group.places[0].exists()
