"""Every limit of a sandbox as a whole ends or fails code with its own cause, with control groups and without."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from apps import open_app, run
from moonpool.core.envelope import ExecutionError
from moonpool.engine import execution
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.envelopes import ended_by, explained
from moonpool.sandboxes.base import LimitKind, SandboxLimits
from moonpool.sandboxes.cgroups import LimitsMode
from sandboxes.groups import best_groups

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.bootstrap import Tenant
    from moonpool.core.envelope import Envelope

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("backend", [pytest.param("bubblewrap", marks=pytest.mark.slow), "zygote"])
MODES = pytest.mark.parametrize("limits", ["auto", "rlimits"])
MIB = 1024**2
FILL = f"import mmap\nshared = mmap.mmap(-1, {400 * MIB})\nfor at in range(0, {400 * MIB}, 4096): shared[at] = 1"
FORKS = """
import os, signal
for _ in range(200):
    if os.fork() == 0: signal.pause()
"""
ADDING = """
const bytes = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 7, 1, 96, 2, 127, 127, 1, 127, 3, 2, 1, 0, 5, 3, 1, 0, 1, 7, 7, 1, 3, 97, 100, 100,
  0, 0, 10, 9, 1, 7, 0, 32, 0, 32, 1, 106, 11,
])
const { instance } = await WebAssembly.instantiate(bytes)
globalThis.result = instance.exports.add(2, 3)
"""  # a module with a function and a memory of one page, for which Node reserves gigabytes of addresses
THREADS = """
import threading
release = threading.Event()
try:
    for _ in range(200): threading.Thread(target=release.wait, daemon=True).start()
finally:
    release.set()
"""


@asynccontextmanager
async def app_in(limits: str, backend: str, **settings: Any) -> AsyncGenerator[Tenant]:
    """An application of small sandboxes, with the best control groups of this machine (`auto`) or with none."""
    if limits == "auto":
        async with best_groups():
            pass  # skips where there are none
    memory = 192 * MIB if limits == "auto" else 1024 * MIB
    async with open_app(
        limits=limits,
        backend=backend,
        **{"memory_bytes_max": memory, "disk_bytes_max": 8 * MIB, "process_count_max": 24, **settings},
    ) as app:
        assert (app.engine.backend.limits_mode == LimitsMode.RLIMITS) is (limits == "rlimits")
        yield app


def failure(envelope: Envelope) -> tuple[str, object, object, object]:
    """Type, exit code, signal, limits hit."""
    assert envelope.error is not None
    extras = envelope.extras
    return envelope.error.type, extras["exit_code"], extras["signal"], envelope.metrics.get("limits_hit")


@pytest.mark.req("H-053", "P-006", "I-071")
@BOTH
async def test_memory_of_the_whole_that_runs_out_is_told_with_its_limit(backend: str) -> None:
    async with app_in("auto", backend) as app:
        envelope = await run(app, FILL)
    assert failure(envelope) == ("OutOfMemory", 137, "SIGKILL", ["memory"])
    assert envelope.error is not None
    assert "200 MiB" in envelope.error.message
    assert "memory_bytes_max" in envelope.error.message


@BOTH
async def test_a_child_that_ran_out_of_memory_is_told_beside_what_became_of_the_code(backend: str) -> None:
    child = f"import subprocess, sys\nended = subprocess.run([sys.executable, '-I', '-S', '-c', {FILL!r}])"
    async with app_in("auto", backend) as app:
        if app.engine.backend.limits_mode == LimitsMode.CGROUP2:
            pytest.skip("cgroup v2 ends the whole sandbox")
        survived = await run(app, f"{child}\nresult = ended.returncode")
        failed = await run(app, f"{child}\nended.check_returncode()")
    assert (survived.data, survived.metrics["limits_hit"]) == (-9, ["memory"])
    assert failure(failed) == ("CalledProcessError", 1, None, ["memory"])
    assert failed.error is not None
    assert "all the memory it may" in failed.error.message


@BOTH
@MODES
async def test_one_process_that_asks_for_too_much_gets_a_memory_error_and_the_session_goes_on(
    backend: str, limits: str
) -> None:
    async with app_in(limits, backend) as app:
        session = app.runtime.session(app.caller_grant)
        failed = await session.execute(CodeRequest(code=b"x = 1; y = bytearray(2 << 30)"))
        after = await session.execute(CodeRequest(code=b"result = x"))
        await session.close()
    assert failure(failed) == ("MemoryError", 1, None, None)
    assert after.data == 1


@BOTH
async def test_webassembly_runs_where_groups_bound_memory(backend: str) -> None:
    async with app_in("auto", backend, process_count_max=64) as app:
        envelope = await run(app, ADDING, language="node")
    assert (envelope.error, envelope.data) == (None, 5)


@BOTH
@MODES
async def test_processor_time_that_is_used_up_is_told_with_its_limit(backend: str, limits: str) -> None:
    async with app_in(limits, backend, cpu_s_max=1) as app:
        envelope = await run(app, "while True: pass")
    assert failure(envelope)[:3] == ("CpuTimeExceeded", 137, "SIGKILL")
    assert envelope.error is not None
    assert "1 s of processor time (cpu_s_max)" in envelope.error.message


@pytest.mark.req("H-053")
@BOTH
async def test_processor_time_of_children_that_are_gone_counts(backend: str) -> None:
    burn = "import subprocess, sys\nburn = 'import time\\nwhile time.process_time() < 0.3: pass'\n"
    async with app_in("auto", backend, cpu_s_max=2) as app:
        envelope = await run(app, f"{burn}while True: subprocess.run([sys.executable, '-I', '-S', '-c', burn])")
    assert failure(envelope) == ("CpuTimeExceeded", 137, "SIGKILL", ["cpu"])


@BOTH
@pytest.mark.parametrize("limits", ["auto", pytest.param("rlimits", marks=pytest.mark.slow)])
async def test_wall_clock_time_stays_a_timeout(backend: str, limits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(60)"
    async with app_in(limits, backend) as app:
        killed = await run(app, deaf, timeout_s=2)  # time enough to become deaf
        monkeypatch.setattr(execution, "GRACE_S", 20)  # time enough to obey
        ended = await run(app, "import time; time.sleep(60)", timeout_s=0.3)
    assert failure(ended) == ("Timeout", 130, None, None)
    assert failure(killed) == ("Timeout", 137, "SIGKILL", None)


@BOTH
@MODES
@pytest.mark.parametrize("code", [pytest.param(FORKS, id="fork"), pytest.param(THREADS, id="thread")])
async def test_a_process_or_thread_too_many_is_told_with_the_limit(backend: str, limits: str, code: str) -> None:
    async with app_in(limits, backend, memory_bytes_max=1024 * MIB) as app:  # a thread's stack takes 8 MiB of it
        envelope = await run(app, code)
    assert failure(envelope) == ("ProcessLimit", 1, None, ["processes"] if limits == "auto" else None)
    assert envelope.error is not None
    assert "24 (process_count_max)" in envelope.error.message


@BOTH
async def test_a_call_that_would_block_is_not_taken_for_a_process_too_many(backend: str) -> None:
    code = "import os\nread, write = os.pipe()\nos.set_blocking(read, False)\nos.read(read, 1)"
    async with app_in("auto", backend) as app:
        envelope = await run(app, code)
    assert failure(envelope) == ("BlockingIOError", 1, None, None)


@BOTH
async def test_what_an_earlier_execution_hit_is_not_told_of_the_next(backend: str) -> None:
    async with app_in("auto", backend) as app:
        session = app.runtime.session(app.caller_grant)
        caught = await session.execute(
            CodeRequest(code=f"try:{FORKS.replace(chr(10), chr(10) + ' ')}\nexcept OSError: pass".encode())
        )
        after = await session.execute(CodeRequest(code=b"result = 1"))
        await session.close()
    assert caught.metrics["limits_hit"] == ["processes"]
    assert "limits_hit" not in after.metrics


@BOTH
async def test_a_session_that_ran_out_starts_afresh_and_says_so(backend: str) -> None:
    async with app_in("auto", backend) as app:
        session = app.runtime.session(app.caller_grant)
        ended = await session.execute(CodeRequest(code=f"x = 1\n{FILL}".encode()))
        after = await session.execute(CodeRequest(code=b"result = 'x' in globals()"))
        await session.close()
    assert ended.error is not None
    assert "variables of this session are lost" in ended.error.message
    assert after.data is False


@pytest.mark.req("P-005")
@BOTH
async def test_a_crash_stays_a_crash(backend: str) -> None:
    async with app_in("auto", backend) as app:
        envelope = await run(app, "import ctypes; ctypes.string_at(0)")
    assert failure(envelope) == ("KernelKilled", 139, "SIGSEGV", None)


@pytest.mark.req("H-053")
@MODES
async def test_a_full_disk_is_an_error_of_the_code(limits: str) -> None:
    async with app_in(limits, "zygote") as app:
        envelope = await run(app, "open('big', 'wb').write(bytes(64 << 20))")
    assert failure(envelope) == ("OSError", 1, None, None)


async def test_nothing_of_an_application_is_left_among_the_control_groups() -> None:
    async with best_groups() as groups:
        beside = {top.parent for top in groups.tops.values()}
        ours = f"moonpool-*-{os.getpid()}-*"  # other processes come and go meanwhile
        before = {folder for place in beside for folder in place.glob(ours)}
        async with open_app(serving=True, pool_low=1, shared=False) as app:
            assert (await run(app, "result = 1")).data == 1
            during = {folder for place in beside for folder in place.glob(ours)} - before
    assert during
    assert [folder for folder in during if folder.exists()] == []


# --- the sentences


LIMITS = SandboxLimits(process_count_max=5, cpu_s_max=1200)
REFUSED = ExecutionError(type="BlockingIOError", message="[Errno 11] Resource temporarily unavailable")
PROCESSES, MEMORY = frozenset({LimitKind.PROCESSES}), frozenset({LimitKind.MEMORY})


@pytest.mark.parametrize(
    ("error", "hits", "expected"),
    [
        pytest.param(REFUSED, PROCESSES, "ProcessLimit", id="a refused fork"),
        pytest.param(REFUSED, None, "ProcessLimit", id="where nobody counts"),
        pytest.param(REFUSED, frozenset(), "BlockingIOError", id="nothing was refused"),
        pytest.param(
            ExecutionError(type="RuntimeError", message="no"), PROCESSES, "RuntimeError", id="another failure"
        ),
        pytest.param(
            ExecutionError(type="Error", message="spawn sleep EAGAIN"), PROCESSES, "ProcessLimit", id="Node's error"
        ),
        pytest.param(ExecutionError(type="KernelKilled", message="x"), MEMORY, "OutOfMemory", id="a companion"),
        pytest.param(ExecutionError(type="KernelKilled", message="x"), None, "KernelKilled", id="nobody knows"),
    ],
)
def test_an_error_is_explained_by_what_was_hit(
    error: ExecutionError, hits: frozenset[LimitKind] | None, expected: str
) -> None:
    assert explained(error, hits, LIMITS).type == expected


def test_a_guess_is_called_one() -> None:
    assert "most likely" in explained(REFUSED, None, LIMITS).message
    assert "most likely" not in explained(REFUSED, PROCESSES, LIMITS).message


def test_an_error_keeps_whether_it_may_be_retried_when_memory_ran_out_besides() -> None:
    error = ExecutionError(type="RateLimit", message="slow down", retryable=True)
    told = explained(error, MEMORY, LIMITS)
    assert (told.type, told.retryable, told.message.startswith("slow down; besides")) == ("RateLimit", True, True)


def test_the_end_by_processor_time_names_the_limit_and_what_was_lost() -> None:
    told = ended_by(LimitKind.CPU, LIMITS, "; all is lost")
    assert told.message.startswith("the sandbox used all of its 1,200 s")
    assert told.message.endswith("; all is lost")
