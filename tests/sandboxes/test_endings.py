"""After any ending no process, control group, mount, socket or file of ours remains. Shown by counting.

A host runs in a process of its own; the named moment is an event (a word that it says, or a child that bubblewrap has
made), never a time.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from commands.process import Command, preload
from moonpool.engine.run_folder import run_folder
from moonpool.sandboxes.base import SandboxSpec, SandboxStartError
from moonpool.sandboxes.cgroups import open_groups
from process_tree import alive, children_of
from sandboxes.conftest import REAL
from sandboxes.ending_host import ENDURING, command_of
from sandboxes.probe import Probe
from sandboxes.remains import Graveyard, caught, outer_sandboxes_in_start, reapers, started_here
from waiting import until

if TYPE_CHECKING:
    from collections.abc import Generator

    from moonpool.sandboxes.base import ImageSpec, Sandbox
    from moonpool.sandboxes.bubblewrap import BubblewrapBackend
    from moonpool.sandboxes.zygote import ZygoteBackend

    Backend = ZygoteBackend | BubblewrapBackend

pytestmark = [pytest.mark.anyio, pytest.mark.claim("C-PROC-3")]

HOST = Path(__file__).with_name("ending_host.py")
TIMES = 3


@pytest.fixture(params=["zygote", pytest.param("bubblewrap", marks=pytest.mark.slow)])
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def graveyard(state_dir: Path) -> Generator[Graveyard]:
    preload()
    graveyard = Graveyard(state_dir)
    yield graveyard
    graveyard.close()


async def host_at(moment: str, name: str, folder: Path) -> subprocess.Popen[bytes]:
    """A host that has said that it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    process = Command([HOST, name, folder, moment], stdout=subprocess.PIPE)
    started_here(process.pid)
    with anyio.fail_after(60):
        assert await said(process) == moment
    return process


async def said(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return (await asyncio.to_thread(process.stdout.readline)).decode().strip()


async def gone(process: subprocess.Popen[bytes]) -> int:
    with anyio.fail_after(30):
        code = await asyncio.to_thread(process.wait)
    assert process.stdout is not None
    process.stdout.close()
    return code


# --- the host ends


async def test_a_host_that_leaves_in_order_leaves_nothing(name: str, state_dir: Path, graveyard: Graveyard) -> None:
    host = await host_at("leaving", name, state_dir)
    assert await said(host) == "closed"
    assert await gone(host) == 0
    await graveyard.is_empty_soon()


@pytest.mark.parametrize("moment", ["idle", "sending"])
async def test_a_killed_host_leaves_nothing(moment: str, name: str, state_dir: Path, graveyard: Graveyard) -> None:
    host = await host_at(moment, name, state_dir / "run")
    host.kill()
    await gone(host)
    await graveyard.is_empty_soon()


async def test_a_host_that_is_killed_while_an_outer_sandbox_starts_leaves_nothing(
    name: str, state_dir: Path, graveyard: Graveyard
) -> None:
    for _ in range(TIMES):
        host = await host_at("opening", name, state_dir / "run")
        await caught(lambda: {wall for one in reapers(host.pid) for wall in outer_sandboxes_in_start(one)})  # noqa: B023
        host.kill()
        await gone(host)
        await graveyard.is_empty_soon()


# --- parts of it are killed


async def test_an_open_that_is_cancelled_while_the_outer_sandbox_starts_leaves_nothing(
    name: str, image: ImageSpec, graveyard: Graveyard, state_dir: Path
) -> None:
    for _ in range(TIMES):
        backend, opening, _, _ = await wall_in_start(name, state_dir, image)
        opening.cancel()
        await asyncio.wait({opening})
        if name == "bubblewrap":  # a zygote goes on starting for whoever asks next
            assert list(state_dir.glob("*/slots/*")) == []
            assert len(graveyard.remains().processes) == 1
        with anyio.fail_after(60):
            await backend.close()
        await graveyard.is_empty_soon()


async def test_an_outer_sandbox_that_is_killed_while_it_starts_leaves_no_process_and_an_error(
    name: str, image: ImageSpec, graveyard: Graveyard, state_dir: Path
) -> None:
    refused = 0
    for _ in range(10 * TIMES):
        backend, opening, reaper, wall = await wall_in_start(name, state_dir, image)
        os.kill(wall, signal.SIGKILL)
        refused += await is_refused(opening)
        await graveyard_holds_only(graveyard, {reaper})
        again = Probe(await backend.open_sandbox(SandboxSpec(image=image)))
        assert (await again.run("result = 1")).result == 1
        with anyio.fail_after(60):
            await backend.close()
        await graveyard.is_empty_soon()
        if refused == TIMES:
            return
    pytest.fail(f"the kill came in the middle of a start {refused} times only")


async def test_when_every_outer_sandbox_is_killed_nothing_of_their_sandboxes_remains(
    real_backend: Backend, image: ImageSpec, graveyard: Graveyard
) -> None:
    reaper = started_here((await real_backend._starter.begin())._process.pid)
    probes = [Probe(await real_backend.open_sandbox(SandboxSpec(image=image))) for _ in range(2)]
    await probes[0].run("import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)")
    for wall in children_of(reaper):
        os.kill(wall, signal.SIGKILL)
    for probe in probes:
        await probe.exited()
    await graveyard_holds_only(graveyard, {reaper})


async def test_when_a_zygote_is_killed_nothing_of_its_sandboxes_remains(
    image: ImageSpec, graveyard: Graveyard, state_dir: Path
) -> None:
    backend = REAL["zygote"](state_dir)
    reaper = started_here((await backend._starter.begin())._process.pid)
    probe = Probe(await backend.open_sandbox(SandboxSpec(image=image)))
    wall = min(children_of(reaper))
    first_inside = min(children_of(wall))
    os.kill(min(children_of(first_inside)), signal.SIGKILL)  # PID 1 there is bubblewrap, the zygote its child
    await probe.exited()
    await graveyard_holds_only(graveyard, {reaper})
    await backend.close()
    await graveyard.is_empty_soon()


# --- even the reaper is killed


async def test_when_the_reaper_is_killed_its_outer_sandboxes_die_and_the_next_start_works(
    real_backend: Backend, image: ImageSpec, graveyard: Graveyard
) -> None:
    reaper = started_here((await real_backend._starter.begin())._process.pid)
    probe = Probe(await real_backend.open_sandbox(SandboxSpec(image=image)))
    os.kill(reaper, signal.SIGKILL)
    await probe.exited()
    await graveyard_holds_only(graveyard, set())
    again = Probe(await real_backend.open_sandbox(SandboxSpec(image=image)))
    assert (await again.run("result = 1")).result == 1


async def test_when_the_reaper_is_killed_no_first_process_outlives_it_and_is_called_ended(
    real_backend: Backend, image: ImageSpec, graveyard: Graveyard
) -> None:
    reaper = started_here((await real_backend._starter.begin())._process.pid)
    probe = Probe(await real_backend.open_sandbox(SandboxSpec(image=image)))
    pid = probe.sandbox.host_pid
    probe.start(ENDURING)
    await until(lambda: command_of(probe) == b"endures")
    os.kill(reaper, signal.SIGKILL)
    await probe.exited()
    assert pid is not None
    assert alive({pid}) == set()
    await graveyard_holds_only(graveyard, set())


async def test_what_outlived_host_and_reaper_is_ended_by_the_next_start(
    name: str, state_dir: Path, graveyard: Graveyard
) -> None:
    (state_dir / "run").mkdir(mode=0o755)
    host = await host_at("enduring", name, state_dir / "run" / "abandoned")
    (reaper,) = reapers(host.pid)
    os.kill(host.pid, signal.SIGSTOP)
    os.kill(reaper, signal.SIGKILL)
    host.kill()
    await gone(host)
    with run_folder(state_dir / "run") as folder:
        assert [path for path in (state_dir / "run").iterdir() if path != folder] == []
        await graveyard_holds_only(graveyard, set())
    (state_dir / "run").rmdir()
    await graveyard.is_empty_soon()


async def test_a_reaper_that_is_killed_while_an_outer_sandbox_starts_leaves_no_process(
    name: str, image: ImageSpec, graveyard: Graveyard, state_dir: Path
) -> None:
    refused = 0
    for _ in range(10 * TIMES):
        backend, opening, reaper, _ = await wall_in_start(name, state_dir, image)
        os.kill(reaper, signal.SIGKILL)
        refused += await is_refused(opening)
        await graveyard_holds_only(graveyard, set())
        await backend.close()
        await graveyard.is_empty_soon()
        if refused == TIMES:
            return
    pytest.fail(f"the kill came in the middle of a start {refused} times only")


async def test_when_host_and_reaper_are_killed_at_once_the_next_start_removes_the_rest(
    name: str, state_dir: Path, graveyard: Graveyard
) -> None:
    for _ in range(TIMES):
        (state_dir / "run").mkdir(mode=0o755)
        host = await host_at("opening", name, state_dir / "run" / "abandoned")
        watched = partial(both_in_start, host.pid)
        while True:
            reaper = await caught(watched)
            assert reaper is not None
            os.kill(host.pid, signal.SIGSTOP)  # neither can do anything about the end of the other
            if reaper in reapers(host.pid):
                break
            os.kill(host.pid, signal.SIGCONT)  # it was faster: the start is over, and its reaper has left
        os.kill(reaper, signal.SIGKILL)
        host.kill()
        await gone(host)
        with run_folder(state_dir / "run") as folder:
            assert [path for path in (state_dir / "run").iterdir() if path != folder] == []
            await graveyard_holds_only(graveyard, set())
            await (await asyncio.to_thread(open_groups, "auto")).close()
        (state_dir / "run").rmdir()
        await graveyard.is_empty_soon()


def both_in_start(host: int) -> set[int]:
    return {one for one in reapers(host) if outer_sandboxes_in_start(one)}


async def wall_in_start(name: str, folder: Path, image: ImageSpec) -> tuple[Backend, asyncio.Future[Sandbox], int, int]:
    """A first opening in its middle: backend, task, reaper, and bubblewrap, which has made its child."""
    while True:
        backend = REAL[name](folder)
        reaper = started_here((await backend._starter.begin())._process.pid)
        opening: asyncio.Future[Sandbox] = asyncio.ensure_future(backend.open_sandbox(SandboxSpec(image=image)))
        wall = await caught(partial(outer_sandboxes_in_start, reaper), unless=opening.done)
        if wall is not None:
            return backend, opening, reaper, wall
        await opening
        await backend.close()


async def is_refused(opening: asyncio.Future[Sandbox]) -> bool:
    """Whether it fails; else the start was faster than the kill, and then too nothing may stay."""
    with anyio.fail_after(60):
        (end,) = await asyncio.gather(opening, return_exceptions=True)
    assert not isinstance(end, BaseException) or isinstance(end, SandboxStartError)
    return isinstance(end, BaseException)


async def graveyard_holds_only(graveyard: Graveyard, pids: set[int]) -> None:
    with anyio.fail_after(60):
        while graveyard.remains().processes != pids:  # noqa: ASYNC110  nobody announces it
            await anyio.sleep(0.05)
