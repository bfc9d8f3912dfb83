"""What only backends with real processes can show: hostile bytes, wrapper slots, uids, and that nothing is left."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.sandboxes.base import ExitCause, SandboxLimits, SandboxSpec, SandboxStartError
from moonpool.sandboxes.bubblewrap import BubblewrapBackend
from moonpool.sandboxes.identity import UID_COUNT, UID_FIRST
from moonpool.sandboxes.messages import Done, ToolResult
from moonpool.sandboxes.zygote import ZygoteBackend
from process_tree import children_of, descendants
from sandboxes.conftest import REAL
from sandboxes.probe import Probe, open_fds
from waiting import until

if TYPE_CHECKING:
    from moonpool.sandboxes.base import ImageSpec

    Backend = ZygoteBackend | BubblewrapBackend

pytestmark = pytest.mark.anyio


async def opened(backend: Backend, image: ImageSpec, *, scope: str = "default") -> Probe:
    with anyio.fail_after(60):
        return Probe(await backend.open_sandbox(SandboxSpec(image=image, scope=scope)))


def status_of(pid: int) -> dict[str, list[str]]:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}


# --- hostile bytes on the channel


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        pytest.param("os.write(3, b'GET / HTTP/1.1')", "frame of kind", id="another protocol"),
        pytest.param("os.write(3, bytes(4))", "frame of kind 0", id="zeros"),
        pytest.param("os.write(3, b'\\x01\\x00\\x00\\x06\\x00\\x04junk')", "malformed", id="a head that is no JSON"),
        pytest.param("os.write(3, b'\\x03\\x00\\x00\\x05\\x00\\x00\\x00\\x01x')", "not open", id="bytes for no blob"),
        pytest.param("os.write(3, b'\\x05\\x00\\x00\\x04\\x00\\x00\\x00\\x01')", "not being sent", id="refusal"),
        pytest.param("os.close(3)", "closed the channel", id="closed and lives on"),
    ],
)
async def test_junk_on_the_channel_ends_the_sandbox(
    real_backend: Backend, image: ImageSpec, statement: str, reason: str
) -> None:
    probe = await opened(real_backend, image)
    run = await probe.run_to_exit(f"import os, time\n{statement}\ntime.sleep(60)")
    assert run.exit is not None
    assert run.exit.cause is ExitCause.KILLED
    assert reason in (run.exit.violation or "")


async def test_a_descriptor_sent_by_a_guest_never_arrives(real_backend: Backend, image: ImageSpec) -> None:
    probe = await opened(real_backend, image)
    before = open_fds()
    await probe.run(
        """
import array, os, socket
own = socket.socket(fileno=os.dup(3))
head = b'{"t":"display","mime":"test"}'
packet = bytes([1, 0, 0, len(head) + 2, 0, len(head)]) + head
own.sendmsg([packet], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
own.detach()
"""
    )
    assert any(getattr(item, "mime", None) == "test" for item, _ in probe.heard)
    assert open_fds() <= before


async def test_a_guest_that_does_not_read_is_ended_before_the_host_keeps_too_much(
    real_backend: Backend, image: ImageSpec
) -> None:
    probe = await opened(real_backend, image)
    probe.start("import time\nprint('deaf')\ntime.sleep(60)")
    await probe.said("deaf")
    body = bytes(60 << 20)
    for call in range(1, 10):
        probe.sandbox.send(ToolResult(id=call), body)
    run = await probe.exited()
    assert run.exit is not None
    assert "does not read" in (run.exit.violation or "")


async def test_a_flood_of_frames_is_slowed_down_and_neighbours_go_on(real_backend: Backend, image: ImageSpec) -> None:
    flooder, neighbour = await opened(real_backend, image), await opened(real_backend, image)
    flooder.start(
        'import os\nprint(\'flood\')\nframe = b\'\\x01\\x00\\x00\\x1a\\x00\\x18\' + b\'{"t":"display","mime":"m"}\'\n'
        "while True: os.write(3, frame * 500)"
    )
    await flooder.said("flood")
    for _ in range(10):
        assert (await neighbour.run("result = 1")).result == 1
    await flooder.sandbox.close()


async def test_junk_flooding_one_sandbox_leaves_its_neighbour_alone(real_backend: Backend, image: ImageSpec) -> None:
    broken, neighbour = await opened(real_backend, image), await opened(real_backend, image)
    await broken.run_to_exit("import os, time\nos.write(3, b'x' * 4096)\ntime.sleep(60)")
    assert (await neighbour.run("result = 1")).result == 1


# --- wrapper slots


def tree(folder: Path, version: int) -> Path:
    top = folder / f"v{version}"
    (top / "servers" / "one").mkdir(parents=True)
    (top / "mcptools").mkdir()
    (top / "servers" / "__init__.py").write_text("", encoding="utf-8")
    (top / "servers" / "one" / "__init__.py").write_text(
        f"VERSION = {version}\nfrom .part import SAME\n", encoding="utf-8"
    )
    (top / "servers" / "one" / "part.py").write_text(f"SAME = {version}\n", encoding="utf-8")
    return top


async def test_a_published_tree_imports_and_is_replaced_at_once(
    real_backend: Backend, image: ImageSpec, state_dir: Path
) -> None:
    probe = await opened(real_backend, image)
    code = (
        "import sys\nfor name in [n for n in sys.modules if n.startswith('servers')]: del sys.modules[name]\n"
        "import importlib; importlib.invalidate_caches()\nimport servers.one as one\nresult = [one.VERSION, one.SAME]"
    )
    for version in (1, 2, 1):
        folder = state_dir / "trees" / f"v{version}"
        probe.sandbox.publish(folder if folder.exists() else tree(state_dir / "trees", version), f"sha256:{version}")
        assert (await probe.run(code)).result == [version, version]


async def test_a_sandbox_never_sees_half_a_tree(real_backend: Backend, image: ImageSpec, state_dir: Path) -> None:
    trees = [tree(state_dir / "trees", version) for version in (1, 2)]
    probe = await opened(real_backend, image)
    probe.sandbox.publish(trees[0], "sha256:0")
    probe.start(
        """
import os
print("reading")
seen, reads = set(), 0
while len(seen) < 2 or reads < 200:
    folder = os.open("/wrappers/current", os.O_RDONLY)
    texts = []
    for name, at in (("__init__.py", 10), ("part.py", 7)):
        fd = os.open(f"servers/one/{name}", os.O_RDONLY, dir_fd=folder)
        texts.append(os.read(fd, 100).decode()[at])
        os.close(fd)
    os.close(folder)
    assert texts[0] == texts[1], texts
    seen.add(texts[0])
    reads += 1
result = sorted(seen)
"""
    )
    await probe.said("reading")
    turn = 0
    with anyio.fail_after(60):
        while not isinstance(probe.heard[-1][0], Done):
            turn += 1
            probe.sandbox.publish(trees[turn % 2], f"sha256:{turn % 2}")
            await anyio.sleep(0.001)
    assert (await probe.finish()).result == ["1", "2"]


async def test_wrappers_are_read_only_and_other_slots_are_hidden(
    real_backend: Backend, image: ImageSpec, state_dir: Path
) -> None:
    mine, other = await opened(real_backend, image), await opened(real_backend, image)
    other.sandbox.publish(tree(state_dir / "trees", 1), "sha256:1")
    mine.sandbox.publish(tree(state_dir / "trees", 2), "sha256:2")
    run = await mine.run(
        """
import os
def refused(action):
    try: action()
    except OSError as error: return error.errno
result = [
    os.listdir("/slots"),
    sorted(os.listdir("/wrappers")),
    [refused(lambda: open("/wrappers/x", "w")), refused(lambda: os.unlink("/wrappers/current")),
     refused(lambda: open("/wrappers/current/servers/x", "w"))],
]
"""
    )
    assert run.result == [[], ["current", "tree-2"], [30, 30, 30]]


async def test_slots_are_readable_whatever_the_umask_is(
    image: ImageSpec, state_dir: Path, real_backend: Backend
) -> None:
    before = os.umask(0o077)
    try:
        probe = await opened(real_backend, image)
        probe.sandbox.publish(tree(state_dir / "trees", 1), "sha256:1")
    finally:
        os.umask(before)
    for path in (state_dir / "trees").rglob("*"):
        path.chmod(0o755)
    (state_dir / "trees" / "v1").chmod(0o755)
    code = "import servers.one, pwd, socket\nresult = [servers.one.VERSION, pwd.getpwuid(1000).pw_name]"
    assert (await probe.run(code)).result == [1, "sandbox"]


# --- who it runs as


async def test_no_process_of_a_sandbox_has_kernel_uid_0_or_a_capability(
    real_backend: Backend, image: ImageSpec
) -> None:
    probe = await opened(real_backend, image)
    await probe.run("import subprocess\nchild = subprocess.Popen(['/bin/sleep', '60'])")
    pid = probe.sandbox.host_pid
    assert pid is not None
    children = children_of(pid)
    assert len(children) == 1
    expected = status_of(pid)["Uid"][0]
    assert UID_FIRST < int(expected) < UID_FIRST + UID_COUNT or int(expected) == os.geteuid() != 0
    for one in (pid, *children):
        status = status_of(one)
        assert status["Uid"] == status["Gid"] == [expected] * 4
        assert status["Groups"] in ([], [expected]) or os.geteuid() != 0
        assert {status[name][0] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
        assert (status["NoNewPrivs"], status["Seccomp"]) == (["1"], ["2"])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: only root may choose uids")
async def test_each_sandbox_has_a_uid_of_its_own_and_gives_it_back(real_backend: Backend, image: ImageSpec) -> None:
    uids: list[str] = []
    for scope in ("a", "a", "b"):
        probe = await opened(real_backend, image, scope=scope)
        pid = probe.sandbox.host_pid
        assert pid is not None
        assert (await probe.run(OWN_FILES)).result == [1000] * 4
        uids.append(status_of(pid)["Uid"][0])
    assert len({*uids}) == 3


OWN_FILES = """
import os
open("/workspace/mine", "w").close()
places = ("/workspace/mine", "/proc/self/fd", "/proc/1/mem")
result = [os.getuid(), *(os.stat(place).st_uid for place in places)]
open("/proc/self/maps").read(); os.listdir("/proc/self/fd")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: only root may choose uids")
async def test_descriptors_in_flight_are_counted_for_each_sandbox_alone(
    real_backend: Backend, image: ImageSpec
) -> None:
    attacker, neighbour = await opened(real_backend, image), await opened(real_backend, image)
    run = await attacker.run(IN_FLIGHT.format(most=2000))
    assert isinstance(run.result, int)
    assert 200 < run.result < 2000
    assert (await neighbour.run(IN_FLIGHT.format(most=20))).result == 20


IN_FLIGHT = """
import os, socket
pairs = [socket.socketpair() for _ in range(20)]
fd, sent = os.open("/dev/null", os.O_RDONLY), 0
for one, _ in pairs:
    one.setblocking(False)
    try:
        while sent < {most}:
            socket.send_fds(one, [b"x"], [fd] * 20); sent += 20
    except OSError: pass
result = sent
"""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may choose uids")
async def test_without_root_a_second_scope_is_refused_with_the_reason(real_backend: Backend, image: ImageSpec) -> None:
    await opened(real_backend, image, scope="a")
    with pytest.raises(SandboxStartError, match="serves one tenant"):
        await opened(real_backend, image, scope="b")


# --- nothing is left


@pytest.mark.parametrize("name", sorted(REAL))
async def test_nothing_is_left_after_close(name: str, image: ImageSpec, state_dir: Path) -> None:
    fds, processes = open_fds(), descendants()
    backend = REAL[name](state_dir)
    probes = [await opened(backend, image) for _ in range(5)]
    await probes[0].run("import subprocess\nfor _ in range(5): subprocess.Popen(['/bin/sleep', '60'])")
    await probes[1].run_to_exit("import os; os._exit(3)")
    probes[2].start("while True: pass")
    probes[3].sandbox.publish(tree(state_dir / "trees", 1), "sha256:1")
    await probes[4].sandbox.close()
    shutil.rmtree(state_dir / "trees")
    with anyio.fail_after(60):
        await backend.close()
    await until(lambda: descendants() <= processes)
    assert open_fds() <= fds
    assert list(state_dir.iterdir()) == []


async def test_a_closed_sandbox_leaves_no_process_descriptor_or_slot(
    real_backend: Backend, image: ImageSpec, state_dir: Path
) -> None:
    await (await opened(real_backend, image)).sandbox.close()  # the zygote is up
    fds, processes = open_fds(), descendants()
    for _ in range(5):
        probe = await opened(real_backend, image)
        await probe.run("import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)")
        await probe.sandbox.close()
    await until(lambda: descendants() <= processes)
    assert open_fds() <= fds
    assert list(state_dir.glob("*/slots/*")) == []


@pytest.mark.slow
async def test_many_opens_at_once_all_succeed(image: ImageSpec, state_dir: Path) -> None:
    backend = ZygoteBackend(state_dir)
    spec = SandboxSpec(image=image)
    with anyio.fail_after(60):
        sandboxes = await asyncio.gather(*(backend.open_sandbox(spec) for _ in range(120)))
        assert len({sandbox.sandbox_id for sandbox in sandboxes}) == 120
        await asyncio.gather(*(sandbox.close() for sandbox in sandboxes))
        await backend.close()


async def test_an_open_that_is_cancelled_leaves_nothing(
    real_backend: Backend, image: ImageSpec, state_dir: Path
) -> None:
    spec = SandboxSpec(image=image)
    await (await real_backend.open_sandbox(spec)).close()
    fds, processes = open_fds(), descendants()
    for delay_s in (0.0, 0.001, 0.002, 0.004, 0.008, 0.016):
        task = asyncio.ensure_future(real_backend.open_sandbox(spec))
        await anyio.sleep(delay_s)
        task.cancel()
        result = (await asyncio.gather(task, return_exceptions=True))[0]
        if not isinstance(result, BaseException):
            await result.close()
    await until(lambda: descendants() <= processes and open_fds() <= fds and not list(state_dir.glob("*/slots/*")))
    assert (await (await opened(real_backend, image)).run("result = 1")).result == 1


# --- starts that fail


async def failed_start(backend: Backend, spec: SandboxSpec, state_dir: Path) -> SandboxStartError:
    await backend._starter.begin()  # the reaper stays until the backend is closed
    fds, processes = open_fds(), descendants()
    with anyio.fail_after(30), pytest.raises(SandboxStartError) as raised:
        await backend.open_sandbox(spec)
    await until(lambda: descendants() <= processes and open_fds() <= fds and not list(state_dir.glob("*/slots/*")))
    return raised.value


async def test_an_image_that_is_not_there_is_named(real_backend: Backend, image: ImageSpec, state_dir: Path) -> None:
    broken = replace(image, guest=state_dir / "no such folder")
    error = await failed_start(real_backend, SandboxSpec(image=broken), state_dir)
    assert error.step in {"outer sandbox", "ready"}  # bubblewrap may end before or after it named its child
    assert "no such folder" in str(error)


async def test_an_interpreter_that_is_not_there_is_named(
    real_backend: Backend, image: ImageSpec, state_dir: Path
) -> None:
    broken = replace(image, python=Path("/usr/bin/no-such-python"))
    error = await failed_start(real_backend, SandboxSpec(image=broken), state_dir)
    assert "no-such-python" in str(error)


async def test_a_guest_that_does_not_import_is_named(real_backend: Backend, image: ImageSpec, state_dir: Path) -> None:
    empty = state_dir / "empty"
    empty.mkdir()
    empty.chmod(0o755)
    error = await failed_start(real_backend, SandboxSpec(image=replace(image, guest=empty)), state_dir)
    assert "moonpool_guest" in str(error)


async def test_a_confinement_step_that_fails_is_named(real_backend: Backend, image: ImageSpec, state_dir: Path) -> None:
    await (await opened(real_backend, image)).sandbox.close()
    limits = SandboxLimits(disk_inodes_max=-1)
    error = await failed_start(real_backend, SandboxSpec(image=image, limits=limits), state_dir)
    assert error.step == "mounts"


async def test_a_state_folder_that_cannot_be_written_is_named(
    request: pytest.FixtureRequest, image: ImageSpec, state_dir: Path
) -> None:
    in_the_way = state_dir / "file"
    in_the_way.write_text("", encoding="utf-8")
    for kind in (ZygoteBackend, BubblewrapBackend):
        backend = kind(in_the_way)
        error = await failed_start(backend, SandboxSpec(image=image), state_dir)
        assert error.step == "folder"
        await backend.close()


# --- a zygote that dies


async def test_when_a_zygote_is_killed_its_sandboxes_are_lost_and_the_next_open_works(
    image: ImageSpec, state_dir: Path
) -> None:
    backend = ZygoteBackend(state_dir)
    spec = SandboxSpec(image=image)
    probes = [await opened(backend, image) for _ in range(3)]
    probes[0].start("while True: pass")
    zygote = await backend.zygote(spec.scope, image)
    zygote.process.kill()
    for probe in probes:
        run = await probe.exited()
        assert run.exit is not None
        assert run.exit.cause is ExitCause.LOST

    again = await opened(backend, image)
    assert (await again.run("result = 1")).result == 1
    assert await backend.zygote(spec.scope, image) is not zygote
    await backend.close()


async def test_when_an_outer_sandbox_is_killed_its_sandbox_is_lost(image: ImageSpec, state_dir: Path) -> None:
    backend = BubblewrapBackend(state_dir)
    probe = await opened(backend, image)
    assert isinstance(probe.sandbox.host_pid, int)
    os.kill(int(status_of(probe.sandbox.host_pid)["PPid"][0]), signal.SIGKILL)
    run = await probe.exited()
    assert run.exit is not None
    assert run.exit.cause is ExitCause.LOST
    await backend.close()


async def test_a_sandbox_cannot_signal_its_zygote_or_its_neighbours(image: ImageSpec, state_dir: Path) -> None:
    backend = ZygoteBackend(state_dir)
    attacker, neighbour = await opened(backend, image), await opened(backend, image)
    attacker.start(
        "import os\nfor target in (-1, 2, 3, 4):\n    try: os.kill(target, 9)\n    except OSError: pass\n"
        "os.kill(0, 9)\nprint('alive')"
    )
    await attacker.until(lambda run: run.done or run.exit)
    assert (await neighbour.run("result = 1")).result == 1
    await backend.close()
