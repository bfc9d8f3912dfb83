"""What faces use of executions by one call; `moonpool.bootstrap.sandbox_runs` makes them for a tenant."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from moonpool.features.execution_records.model import RunPage, RunQuery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.features.execution_records.model import DeliveryMode, ExecutionRecord, Status
    from moonpool.features.sandbox_configurations.model import SandboxConfiguration
    from moonpool.pipeline.caller_grant import CallerGrant


__all__ = ["RunEvent", "RunOwner", "RunPage", "RunQuery", "RunResult", "SandboxOrder", "SandboxRun", "SandboxRuns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOrder:
    """What a caller asks for. `check` of `moonpool.engine.sandbox_runs.orders` says what is wrong with one."""

    code: str
    language: str | None = None  # None: the configuration's
    timeout_s: int | None = None
    thread_id: str | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict[str, "JsonValue"])
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    sub_paths: tuple[str, ...] = ()
    delivery_mode: DeliveryMode = "inline"
    webhook_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOwner:
    """On whose behalf. Made by a face from its caller."""

    principal: str
    thread_owner: str  # `features.storage.model.owner_of_threads`
    grant: CallerGrant
    configuration: SandboxConfiguration
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)  # the key's
    sees_all: bool = False  # an administrator, who finds what others of the organisation ran


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How it ended, in Baponi's words. `exit_code` -1: the process never ran. `remark`: of its files, for people."""

    status: Status
    success: bool
    stdout: str
    stderr: str
    exit_code: int
    error: str | None = None
    output_truncated: bool = False
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """One line of a stream. `seq` grows by one from 1; the last is `result`."""

    seq: int
    kind: Literal["status", "output", "keepalive", "result"]
    body: JsonObject  # the whole line


class SandboxRun(Protocol):
    """One execution, running or over."""

    @property
    def trace_id(self) -> str: ...
    async def result(self) -> RunResult:
        """Wait for its end; what it left in its thread is committed then. Cancelling this wait ends nothing."""
        ...

    def events(self, after_seq: int = 0) -> AsyncIterator[RunEvent]:
        """Its lines behind `after_seq`, as they come, to the last. Any number of readers may read."""
        ...

    def cancel(self) -> None:
        """End its code: interrupt, grace, kill. Its result says `cancelled`."""
        ...

    def when_over(self, call: Callable[[], None]) -> None:
        """Have `call` called once, when it is over; now, if it is."""
        ...


class SandboxRuns(Protocol):
    """Those of one organisation."""

    async def begin(self, owner: RunOwner, order: SandboxOrder) -> SandboxRun:
        """Start it; from now on its trace id is known to its owner.

        Raises InputError for an order that cannot be carried out, TreeBusyError, BusyError and others that are
        retryable before any code started, StorageError, DatabaseError.
        """
        ...

    async def find(self, owner: RunOwner, trace_id: str) -> ExecutionRecord:
        """What is on record. Raises ExecutionUnknownError for another's as for none."""
        ...

    async def follow(self, owner: RunOwner, trace_id: str) -> SandboxRun:
        """One whose lines can be read, from memory or from its record. Raises ExecutionUnknownError."""
        ...

    async def list(self, owner: RunOwner, query: RunQuery) -> RunPage: ...
    async def cancel(self, owner: RunOwner, trace_id: str) -> None:
        """Wherever it runs. Raises ExecutionUnknownError, ExecutionOverError (HTTP 409)."""
        ...
