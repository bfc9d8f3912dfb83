"""Executions that outlive requests: whose they are, how many, what is kept of them, what a restart leaves."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.core.created_files import Picture
from moonpool.core.envelope import Envelope
from moonpool.core.errors import InputError
from moonpool.engine import executions, kept_executions
from moonpool.engine.executions import Bounds, Executions, ExecutionsBusyError
from moonpool.engine.kept_executions import (
    ExecutionFiles,
    ExecutionLostError,
    ExecutionMarks,
    ExecutionUnknownError,
    Mark,
)
from moonpool.engine.outcomes import OutcomeStore
from moonpool.engine.output_window import OutputWindow
from moonpool.engine.pending_calls import ExecutionCancelledError, ParkedCall, Patience, Pause
from moonpool.engine.request_state import RequestStateError
from moonpool.sandboxes.base import Stream
from waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio
AT_ONCE = Patience(running_s=0.0)


def envelope(run_id: str, data: str = "done", picture: bytes = b"") -> Envelope:
    return Envelope(
        run_id=run_id,
        trace_id="0" * 32,
        tool_name="moonpool.python",
        tool_version="0",
        input_digest="sha256:0",
        sandbox_image="base@0",
        duration_ms=1,
        data=data,
        pictures=(Picture(data=picture, mime="image/png"),),
    )


class World:
    """One tenant's executions on a folder that another world can open again, as after a restart."""

    def __init__(self, folder: Path, *, detached_max: int = 4, kept_s: float = 60.0, window_bytes: int = 1000) -> None:
        self.folder, self.go, self.picture = folder, asyncio.Event(), b""
        self.outcomes = OutcomeStore(folder / "outcomes")
        bounds = Bounds(kept_s=kept_s, parked_max=4, detached_max=detached_max, window_bytes=window_bytes)
        self.executions = Executions(bounds, ExecutionFiles(ExecutionMarks(folder / "marks"), self.outcomes))

    async def left(self, principal: str = "key:a") -> ParkedCall:
        """An execution that goes on until `go`, whose id somebody has."""
        view = self.executions.of(principal)
        call = view.start("k", self.work)
        assert await call.outcome(AT_ONCE) is Pause.RUNNING
        await view.remember(call)
        return call

    async def work(self, call: ParkedCall) -> Envelope:
        await self.go.wait()
        return envelope(call.call_id, picture=self.picture)

    @property
    def marks(self) -> list[str]:
        return sorted(path.stem for path in (self.folder / "marks").glob("*"))


async def test_many_wait_for_one_execution_and_all_get_its_outcome(tmp_path: Path) -> None:
    world = World(tmp_path)
    call = await world.left()
    with anyio.fail_after(30):
        waits = [asyncio.ensure_future(call.outcome()) for _ in range(50)]
        await anyio.wait_all_tasks_blocked()
        assert await call.outcome(AT_ONCE) is Pause.RUNNING
        world.go.set()
        ended = await asyncio.gather(*waits)
        again = await call.outcome()
    await world.executions.close()

    assert {one.run_id for one in (*ended, again) if isinstance(one, Envelope)} == {call.call_id}
    assert len(ended) == 50


async def test_a_wait_that_is_cancelled_leaves_the_execution_that_has_been_given_out(tmp_path: Path) -> None:
    world = World(tmp_path)
    call = await world.left()
    with anyio.fail_after(30):
        wait = asyncio.ensure_future(call.outcome())
        await anyio.wait_all_tasks_blocked()
        wait.cancel()
        await asyncio.wait({wait})
        assert not call.over
        world.go.set()
        assert await call.outcome() == envelope(call.call_id)
    await world.executions.close()


async def test_cancelling_ends_it_for_everybody_and_is_remembered(tmp_path: Path) -> None:
    world = World(tmp_path)
    call = await world.left()
    with anyio.fail_after(30):
        waits = [asyncio.ensure_future(call.outcome()) for _ in range(3)]
        await anyio.wait_all_tasks_blocked()
        await call.cancel()
        ended = await asyncio.gather(*waits, return_exceptions=True)
        with pytest.raises(ExecutionCancelledError):
            await call.outcome()
        await world.executions.close()
    assert [type(one) for one in ended] == [ExecutionCancelledError] * 3
    assert world.marks == []
    with pytest.raises(ExecutionUnknownError):
        await World(tmp_path).executions.of("key:a").recall(call.call_id)


@pytest.mark.parametrize("whose", ["another principal's", "another tenant's", "nobody's"])
async def test_what_is_not_the_principals_own_is_as_unknown_as_what_never_was(tmp_path: Path, whose: str) -> None:
    world, other = World(tmp_path / "a"), World(tmp_path / "b")
    call = await world.left()
    state = world.executions.of("key:a").state_of(call, ())
    foreign = other.executions.of("key:a") if whose == "another tenant's" else world.executions.of("key:b")
    execution_id = f"run_{'0' * 32}" if whose == "nobody's" else call.call_id

    assert foreign.find(execution_id) is None
    with pytest.raises(ExecutionUnknownError) as error:
        await foreign.recall(execution_id)
    assert str(error.value) == str(ExecutionUnknownError(execution_id))
    with pytest.raises(RequestStateError):
        foreign.resume(state, "k", {})
    world.go.set()
    with anyio.fail_after(30):
        await call.finished()
        await world.executions.settled()  # an outcome that was kept is no less closed
    with pytest.raises(ExecutionUnknownError):
        await foreign.recall(execution_id)
    await world.executions.close()


@pytest.mark.parametrize(
    "execution_id", ["", "../../../etc/passwd", "run_", f"run_{'g' * 32}", f"run_{'0' * 32}\n", "é" * 500]
)
async def test_what_is_no_id_is_unknown_in_one_line(tmp_path: Path, execution_id: str) -> None:
    with pytest.raises(ExecutionUnknownError) as error:
        await World(tmp_path).executions.of("key:a").recall(execution_id)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


async def test_only_so_many_go_on_by_themselves(tmp_path: Path) -> None:
    world = World(tmp_path, detached_max=2)
    view = world.executions.of("key:a")
    early = view.start("k", world.work)
    for _ in range(2):
        await world.left()
    with pytest.raises(ExecutionsBusyError, match="2 executions go on in the background already"):
        view.start("k", world.work)
    with anyio.fail_after(30):  # one that began before waits on, until there is room
        waiting = asyncio.ensure_future(early.outcome(AT_ONCE))
        await anyio.wait_all_tasks_blocked()
        assert not waiting.done()
        await view.calls[1].cancel()
        assert await waiting is Pause.RUNNING
    await world.left("key:b")  # others have their own
    await world.executions.close()
    assert (view.detached_count, world.executions.detached_count) == (0, 0)


async def test_a_tenant_has_a_bound_of_its_own(tmp_path: Path) -> None:
    world = World(tmp_path, detached_max=1)
    for number in range(executions.TENANT_SHARES):
        await world.left(f"key:{number}")
    with pytest.raises(ExecutionsBusyError):
        world.executions.of("key:last").start("k", world.work)
    await world.executions.close()


async def test_what_is_over_is_in_memory_for_a_while_and_on_disk_for_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executions, "TENANT_KEPT_COUNT_MAX", 3)
    world = World(tmp_path)
    world.go.set()
    calls: list[ParkedCall] = []
    with anyio.fail_after(30):
        for number in range(5):
            calls.append(await world.left(f"key:{number}"))
            await calls[-1].finished()
        await world.executions.settled()
    there = [world.executions.of(f"key:{number}").find(call.call_id) for number, call in enumerate(calls)]
    kept = await world.executions.of("key:0").recall(calls[0].call_id)
    await world.executions.close()

    assert there == [None, None, *calls[2:]]
    assert kept == envelope(calls[0].call_id).to_json()
    assert await World(tmp_path).executions.of("key:0").recall(calls[0].call_id) == kept


async def test_outcomes_with_large_pictures_make_room_sooner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executions, "TENANT_KEPT_SHOWN_MAX", 25)
    world = World(tmp_path)
    world.go.set()
    calls: list[ParkedCall] = []
    with anyio.fail_after(30):
        for size in (10, 10, 10, 100):
            world.picture = b"x" * size
            calls.append(await world.left())
            await calls[-1].finished()
            if size == 10:
                there = list(world.executions.of("key:a").calls)
    await world.executions.close()

    assert there == calls[1:3]
    assert world.executions.of("key:a").calls == (calls[3],)


async def test_memory_forgets_it_after_its_time(tmp_path: Path) -> None:
    world = World(tmp_path, kept_s=0.05)
    call = await world.left()
    world.go.set()
    await call.finished()
    await until(lambda: world.executions.of("key:a").find(call.call_id) is None)
    await world.executions.close()


OTHER_PROCESS = """
import sys
from pathlib import Path
from moonpool.engine.kept_executions import ExecutionMarks
ExecutionMarks(Path(sys.argv[1])).write(sys.argv[2], "key:a")
print("written", flush=True)
sys.stdin.read()
"""


async def test_what_ran_in_a_process_that_has_ended_is_lost(tmp_path: Path) -> None:
    lost, marks = f"run_{'a' * 32}", tmp_path / "marks"
    view = World(tmp_path).executions.of("key:a")
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", OTHER_PROCESS, str(marks), lost], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == b"written\n"
        with pytest.raises(ExecutionUnknownError):  # it goes on there, and is not ours to wait for
            await view.recall(lost)
        process.kill()
    with pytest.raises(ExecutionLostError, match=r"was stopped before it ended\. It is not run again"):
        await view.recall(lost)
    with pytest.raises(ExecutionUnknownError):
        await World(tmp_path).executions.of("key:b").recall(lost)


def of_another_boot(mark: Path) -> None:
    told = json.loads(mark.read_bytes())
    mark.write_text(json.dumps({**told, "process": f"another/{told['process'].partition('/')[2]}"}), encoding="ascii")


async def test_what_this_process_ends_when_it_stops_is_lost_too(tmp_path: Path) -> None:
    world = World(tmp_path)
    call = await world.left()
    await world.executions.close()
    await asyncio.to_thread(of_another_boot, tmp_path / "marks" / f"{call.call_id}.json")
    with pytest.raises(ExecutionLostError):
        await World(tmp_path).executions.of("key:a").recall(call.call_id)


async def test_what_has_ended_is_not_lost_when_its_outcome_is_kept_no_more(tmp_path: Path) -> None:
    world = World(tmp_path)
    call = await world.left()
    world.go.set()
    with anyio.fail_after(30):
        await call.finished()
        await world.executions.close()
    await asyncio.to_thread((tmp_path / "outcomes" / f"{call.call_id}.json").unlink)
    with pytest.raises(ExecutionUnknownError):
        await World(tmp_path).executions.of("key:a").recall(call.call_id)


async def test_a_request_that_is_cancelled_before_its_answer_ends_the_execution(tmp_path: Path) -> None:
    world = World(tmp_path)
    view = world.executions.of("key:a")
    call = view.start("k", world.work)
    assert await call.outcome(AT_ONCE) is Pause.RUNNING
    with anyio.fail_after(30):
        remembering = asyncio.ensure_future(view.remember(call))
        await asyncio.sleep(0)
        remembering.cancel()
        await asyncio.wait({remembering})
        assert call.over
        await world.executions.close()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"principal": "key:a"}', b"\xff", b"{" * 5000, b"[" * 4000])
def test_a_mark_that_is_damaged_is_no_mark(tmp_path: Path, content: bytes) -> None:
    execution_id = f"run_{'b' * 32}"
    (tmp_path / f"{execution_id}.json").write_bytes(content)
    assert ExecutionMarks(tmp_path).find(execution_id, "key:a") is None


def test_marks_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_executions, "MARK_COUNT_MAX", 3)
    marks = ExecutionMarks(tmp_path)
    for number in range(6):
        marks.write(f"run_{number:032}", "key:a")
    assert len(list(tmp_path.glob("*"))) == 3
    assert marks.find(f"run_{5:032}", "key:a") == Mark(lost=False)


async def test_a_disk_without_room_leaves_the_execution_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "marks").write_bytes(b"in the way")
    world = World(tmp_path)
    call = await world.left()
    world.go.set()
    with anyio.fail_after(30):
        assert await call.outcome() == envelope(call.call_id)
    await world.executions.close()


async def test_code_that_could_not_run_leaves_its_error_and_no_mark(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def fails(_: ParkedCall) -> Envelope:
        await world.go.wait()
        raise InputError("no")

    view = world.executions.of("key:a")
    call = view.start("k", fails)
    assert await call.outcome(AT_ONCE) is Pause.RUNNING
    await view.remember(call)
    world.go.set()
    with anyio.fail_after(30):
        for _ in range(2):
            with pytest.raises(InputError):
                await call.outcome()
        await world.executions.close()
    assert world.marks == []


async def test_output_is_read_again_from_any_offset_and_never_differs(tmp_path: Path) -> None:
    world = World(tmp_path, window_bytes=100)
    call = world.executions.of("key:a").start("k", world.work)
    printed = bytes(range(256)) * 1000
    for start in range(0, len(printed), 700):
        call.hear(Stream.STDOUT if start % 2 else Stream.STDERR, printed[start : start + 700])
    begin = call.output.read(0, 0).start
    for offset in range(0, len(printed), 9973):
        piece, again = call.output.read(offset, 500), call.output.read(offset, 500)
        assert piece == again
        assert piece.data == printed[max(offset, begin) :][:500]
        assert piece.missing == max(0, begin - offset)
    assert 100 <= len(printed) - begin <= 100 + 64 * 1024 + 700
    await world.executions.close()


@pytest.mark.parametrize("offset", [-1, 4, 10**30])
async def test_an_offset_beyond_the_output_is_refused(offset: int) -> None:
    window = OutputWindow(10)
    window.add(b"abc")
    assert window.read(3, 10).data == b""
    with pytest.raises(InputError, match="the output has 3 bytes so far"):
        window.read(offset, 10)
