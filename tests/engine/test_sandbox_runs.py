"""Executions by one call over a fake of sandboxes and of trees: what is held when, and what is left of a failure."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest

from moonpool.core.envelope import Envelope, ExecutionError
from moonpool.core.errors import InputError
from moonpool.engine.sandbox_runs import kept_lines
from moonpool.engine.sandbox_runs import runs as sandbox_runs
from moonpool.engine.sandbox_runs.base import RunOwner, SandboxOrder
from moonpool.engine.sandbox_runs.errors import (
    BackgroundRunsError,
    CapacityError,
    SandboxUnfitError,
    VolumeMissingError,
)
from moonpool.engine.sandbox_runs.results import result_of
from moonpool.engine.sandbox_runs.runs import OrganisationRuns
from moonpool.features.execution_records.model import RunQuery
from moonpool.features.execution_records.service import ExecutionRecords
from moonpool.features.sandbox_configurations.model import BUILT_IN, VolumeMount
from moonpool.features.storage.model import TreeBusyError, TreeFullError, TreeName, UnknownTreeError
from moonpool.features.webhooks.model import PrivateHosts
from moonpool.store.database.addresses import SqliteAddress
from moonpool.store.database.base import DatabaseError
from moonpool.store.database.opening import open_database
from waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.engine.code_request import CodeRequest
    from moonpool.engine.sandbox_runs.sandboxes import StorageOfRun
    from moonpool.pipeline.caller_grant import CallerGrant

pytestmark = pytest.mark.anyio
OWNER = RunOwner(
    principal="key:a",
    thread_owner="",
    grant=cast("CallerGrant", None),
    configuration=replace(BUILT_IN, has_storage=True),
)


def envelope(error: ExecutionError | None = None, **members: Any) -> Envelope:
    extras = {"stdout": "out", "stderr": "", "exit_code": 0 if error is None else 1, "signal": None}
    whole = {
        "run_id": "run_1", "trace_id": "t", "tool_name": "moonpool.python", "tool_version": "1", "input_digest": "",
        "sandbox_image": "base", "duration_ms": 1, "error": error, "extras": extras,
        "failed_by": "" if error is None else "moonpool", **members,
    }  # fmt: skip
    return Envelope(**whole)


@dataclass
class FakeTrees:
    """Threads and volumes by name; each can be held once."""

    volumes: set[str] = field(default_factory=set[str])
    held: set[TreeName] = field(default_factory=set[TreeName])

    @asynccontextmanager
    async def hold(self, name: TreeName, execution_id: str) -> AsyncGenerator[TreeName]:
        assert execution_id.startswith("trc_")
        if name.kind == "volume" and name.name not in self.volumes:
            raise UnknownTreeError(f"there is no volume {name.name}")
        if name in self.held:
            raise TreeBusyError(f"{name.name} is in use")
        self.held.add(name)
        try:
            yield name
        finally:
            self.held.remove(name)

    async def snapshot(self, name: TreeName) -> TreeName:
        return name


@dataclass
class FakeSandboxes:
    """Runs nothing: `outcome` is what comes of it, once `go` is set."""

    outcome: Any = field(default_factory=envelope)
    starts: bool = True
    timeout_s_max: float = 100.0
    stream_bytes_max: int = 10
    private_hosts: PrivateHosts = field(default_factory=PrivateHosts)
    was_blocked: bool = False
    go: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[StorageOfRun] = field(default_factory=list["StorageOfRun"])
    requests: list[CodeRequest] = field(default_factory=list["CodeRequest"])
    closed: int = 0

    def redacted(self, metadata: Mapping[str, JsonValue]) -> JsonObject:
        return dict(metadata)

    async def open(self, owner: RunOwner, storage: StorageOfRun) -> FakeSandboxes:
        assert owner is not None
        self.asked.append(storage)
        return self

    async def execute(self, request: CodeRequest) -> Envelope:
        self.requests.append(request)
        if self.starts and request.started is not None:
            request.started()
        await self.go.wait()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def interrupt(self) -> None:
        self.outcome = envelope(ExecutionError(type="Cancelled", message=""))
        self.go.set()

    def close_soon(self) -> None:
        self.closed += 1


@dataclass
class World:
    runs: OrganisationRuns
    records: ExecutionRecords
    sandboxes: FakeSandboxes
    trees: FakeTrees

    async def recorded(self) -> list[str]:
        page = await self.records.page("acme", None, RunQuery())
        return [one.status for one in page.records]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    async with open_database(SqliteAddress(tmp_path / "private" / "db.sqlite3", is_default=True)) as database:
        records, sandboxes, trees = ExecutionRecords(database), FakeSandboxes(), FakeTrees({"shared", "own"})

        async def source() -> FakeSandboxes:
            return sandboxes

        runs = OrganisationRuns("acme", records, source, cast("Any", trees))
        yield World(runs, records, sandboxes, trees)
        await runs.close()


@pytest.mark.req("J-022", "J-023")
async def test_a_thread_is_for_one_execution_at_a_time_and_free_before_the_answer(world: World) -> None:
    order = SandboxOrder(code="1", thread_id="t")
    first = await world.runs.begin(OWNER, order)
    with pytest.raises(TreeBusyError):
        await world.runs.begin(OWNER, order)
    other = await world.runs.begin(OWNER, replace(order, thread_id="u"))
    world.sandboxes.go.set()
    results = [await first.result(), await other.result()]

    assert world.trees.held == set()
    assert [one.success for one in results] == [True, True]
    assert await world.recorded() == ["success", "success"]
    assert [storage.thread for storage in world.sandboxes.asked] == [
        TreeName(kind="thread", name="t"),
        TreeName(kind="thread", name="u"),
    ]


async def test_volumes_are_held_where_they_are_written(world: World) -> None:
    world.sandboxes.go.set()
    volumes = (VolumeMount(slug="shared"), VolumeMount(slug="own", writable=True))
    owner = replace(OWNER, configuration=replace(OWNER.configuration, volumes=volumes))
    await (await world.runs.begin(owner, SandboxOrder(code="1"))).result()
    await (await world.runs.begin(owner, SandboxOrder(code="1", sub_paths=("/data/shared/x",)))).result()
    nowhere = (VolumeMount(slug="x", writable=True),)
    unknown = replace(owner, configuration=replace(owner.configuration, volumes=nowhere))
    with pytest.raises(VolumeMissingError, match="the volume x of this sandbox configuration does not exist"):
        await world.runs.begin(unknown, SandboxOrder(code="1"))
    without = replace(OWNER, configuration=BUILT_IN)
    with pytest.raises(InputError, match="no storage"):
        await world.runs.begin(without, SandboxOrder(code="1", thread_id="t"))

    both, one = world.sandboxes.asked
    assert (set(both.read), set(both.written), both.sub_paths) == ({"shared"}, {"own"}, ())
    assert (set(one.read), set(one.written), one.sub_paths) == ({"shared"}, set(), ("/data/shared/x",))


@pytest.mark.parametrize("mode", ["inline", "webhook"])
@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (envelope(ExecutionError(type="SandboxError", message="full", retryable=True)), CapacityError),
        (envelope(ExecutionError(type="SandboxError", message="unfit")), SandboxUnfitError),
        (envelope(ExecutionError(type="StorageFull", message="remove some folders")), TreeFullError),
        (envelope(ExecutionError(type="LanguageUnavailable", message="no node")), InputError),
        (InputError("no code"), InputError),
        (OSError("a bug"), OSError),
    ],
)
async def test_what_keeps_code_from_starting_is_an_error_without_a_record(
    world: World, mode: Any, outcome: Any, error: type[Exception]
) -> None:
    world.sandboxes.starts, world.sandboxes.outcome = False, outcome
    world.sandboxes.go.set()

    with pytest.raises(error):
        await world.runs.begin(OWNER, SandboxOrder(code="1", thread_id="t", delivery_mode=mode))

    assert await world.recorded() == []
    assert world.trees.held == set()
    assert world.sandboxes.closed == 1


async def test_who_gives_up_waiting_for_the_start_ends_it(world: World) -> None:
    world.sandboxes.starts = False
    waiting = asyncio.ensure_future(world.runs.begin(OWNER, SandboxOrder(code="1", thread_id="t")))
    await until(lambda: world.sandboxes.requests)
    waiting.cancel()
    await until(lambda: not world.runs.is_running)

    assert world.trees.held == set()
    assert await world.recorded() == ["cancelled"]


async def test_a_failure_after_the_start_is_a_result(world: World) -> None:
    world.sandboxes.outcome = OSError("a bug")
    world.sandboxes.go.set()
    run = await world.runs.begin(OWNER, SandboxOrder(code="1", delivery_mode="streaming"))
    result = await run.result()
    lines = [event.kind async for event in run.events()]

    assert (result.success, result.status, result.error, result.exit_code) == (False, "failed", "internal_error", 1)
    assert lines == ["status", "result"]
    assert await world.recorded() == ["failed"]


async def test_code_that_has_run_is_answered_although_its_record_cannot_be_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise DatabaseError("it is away")

    monkeypatch.setattr(world.records, "add", away)
    world.sandboxes.go.set()
    inline = await world.runs.begin(OWNER, SandboxOrder(code="1"))
    with pytest.raises(DatabaseError):
        await world.runs.begin(OWNER, SandboxOrder(code="1", delivery_mode="webhook"))

    assert (await inline.result()).success
    assert len(world.sandboxes.requests) == 1


async def test_an_end_is_put_on_record_however_long_the_database_is_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = 0
    end = world.records.end

    async def away(*arguments: Any) -> bool:
        nonlocal attempts
        attempts += 1
        if attempts < 12:
            raise DatabaseError("it is away")
        return await end(*arguments)

    monkeypatch.setattr(world.records, "end", away)
    monkeypatch.setattr(sandbox_runs, "_AGAIN_S", (0.0, 0.001))
    world.sandboxes.go.set()
    run = await world.runs.begin(OWNER, SandboxOrder(code="1", thread_id="t", delivery_mode="webhook"))
    with anyio.fail_after(30):
        assert (await run.result()).success
        told_after = attempts
        assert world.trees.held == set()
        await until(lambda: attempts == 12 and not world.runs.is_running)

    assert told_after < 12
    assert await world.recorded() == ["success"]
    assert [event.kind async for event in run.events()] == ["status", "result"]


async def test_closing_waits_for_no_database(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> bool:
        raise DatabaseError("it is away")

    monkeypatch.setattr(world.records, "end", away)
    monkeypatch.setattr(sandbox_runs, "_AGAIN_S", (600.0,))
    run = await world.runs.begin(OWNER, SandboxOrder(code="1", delivery_mode="webhook"))
    with anyio.fail_after(30):
        await world.runs.close()

    assert (await run.result()).status == "cancelled"
    assert await world.recorded() == ["running"]


async def test_background_executions_have_bounded_memory_and_the_next_one_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_lines, "ROOM_BYTES", 200_000)
    order = SandboxOrder(code="#" * 90_000, delivery_mode="webhook")
    first, second = await world.runs.begin(OWNER, order), await world.runs.begin(OWNER, order)
    with pytest.raises(BackgroundRunsError, match="200,000 bytes of memory; wait for one to end"):
        await world.runs.begin(OWNER, order)
    await world.runs.begin(OWNER, SandboxOrder(code="#" * 90_000))  # somebody waits for it
    world.sandboxes.go.set()
    for one in (first, second):
        assert (await one.result()).success
    third = await world.runs.begin(OWNER, order)
    assert (await third.result()).success


async def test_closing_ends_what_runs_and_puts_it_on_record(world: World) -> None:
    run = await world.runs.begin(OWNER, SandboxOrder(code="1", thread_id="t"))
    told: list[str] = []
    run.when_over(lambda: told.append("over"))
    await world.runs.close()
    run.when_over(lambda: told.append("later"))

    assert (await run.result()).status == "cancelled"
    assert told == ["over", "later"]
    assert await world.recorded() == ["cancelled"]
    assert world.trees.held == set()


RESULTS: list[Any] = [
    ("Timeout", "moonpool", {}, False, ("timeout", 124, "timeout")),
    ("OutOfMemory", "moonpool", {}, False, ("oom", 137, "memory_limit_exceeded")),
    ("CpuTimeExceeded", "moonpool", {}, False, ("failed", 137, "cpu_limit_exceeded")),
    ("OutputTooLarge", "moonpool", {}, False, ("failed", 137, "output_limit_exceeded")),
    ("ProtocolViolation", "moonpool", {}, False, ("failed", 137, "security_policy_violation")),
    ("KernelKilled", "moonpool", {"signal": "SIGSYS"}, False, ("failed", 137, "security_policy_violation")),
    ("SandboxError", "moonpool", {}, False, ("failed", 137, "sandbox_lost")),
    ("StorageError", "moonpool", {"exit_code": 0}, False, ("failed", 0, "storage_commit_error")),
    ("StorageFull", "moonpool", {"exit_code": 0}, False, ("failed", 0, "storage_commit_error")),
    ("Internal", "moonpool", {}, False, ("failed", 1, "internal_error")),
    ("KernelExited", "moonpool", {"exit_code": 7}, False, ("failed", 7, None)),
    ("URLError", "code", {}, True, ("blocked", 1, "blocked")),
    ("URLError", "code", {}, False, ("failed", 1, None)),
    ("ResultNotSerializable", "result", {}, False, ("success", 0, None)),
]


@pytest.mark.parametrize(("kind", "failed_by", "extras", "blocked", "told"), RESULTS)
def test_the_words_of_baponi(kind: str, failed_by: Any, extras: Any, blocked: bool, told: Any) -> None:
    one = envelope(ExecutionError(type=kind, message=""), failed_by=failed_by)
    one = replace(one, extras={**one.extras, **extras}, metrics={"stdout_bytes": 11})

    result = result_of(one, started=True, was_blocked=blocked, stream_bytes_max=10)

    assert (result.status, result.exit_code, result.error) == told
    assert result.success == (told[0] == "success")
    assert (result.stdout, result.output_truncated) == ("out", True)
