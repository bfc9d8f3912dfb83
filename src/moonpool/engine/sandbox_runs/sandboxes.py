"""What executions by one call need of a tenant: a sandbox for each, and the trees that are shown in it.

`moonpool.bootstrap.tenant_sandboxes` connects both with a tenant's runtime and the service's storage.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from moonpool.core.errors import InputError
from moonpool.engine.sandbox_runs.errors import VolumeMissingError
from moonpool.engine.sandbox_runs.orders import slug_of
from moonpool.features.storage.model import TreeName, UnknownTreeError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.engine.code_request import CodeRequest
    from moonpool.engine.sandbox_runs.base import RunOwner, SandboxOrder
    from moonpool.features.storage.base import HeldTree, OrganisationTrees, Snapshot
    from moonpool.features.webhooks.model import PrivateHosts


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageOfRun:
    """Trees that one execution has: filled in before its code, and what it changed committed before its result."""

    thread: HeldTree | None = None
    written: Mapping[str, HeldTree]  # volumes by slug, also read
    read: Mapping[str, Snapshot]  # likewise, that cannot be changed
    sub_paths: tuple[str, ...] = ()  # of volumes: nothing else of them is shown; none: all

    @property
    def is_empty(self) -> bool:
        return self.thread is None and not self.written and not self.read


class RunSandbox(Protocol):
    """One sandbox for one execution."""

    async def execute(self, request: CodeRequest) -> Envelope:
        """See `Session.execute`. What is to be kept of its trees is committed when this returns."""
        ...

    def interrupt(self) -> None:
        """End what runs, or is made ready, as `Cancelled`: interrupt, grace, kill."""
        ...

    def close_soon(self) -> None:
        """Discard it without letting anybody wait."""
        ...

    @property
    def was_blocked(self) -> bool:
        """Whether the rules of its network refused a connection."""
        ...


class SandboxSource(Protocol):
    """Opens sandboxes of one tenant."""

    @property
    def timeout_s_max(self) -> float:
        """What the operator allows anybody."""
        ...

    @property
    def stream_bytes_max(self) -> int:
        """What an envelope keeps of each stream here."""
        ...

    @property
    def private_hosts(self) -> PrivateHosts:
        """Where webhooks may go beside the public internet."""
        ...

    def redacted(self, metadata: Mapping[str, JsonValue]) -> JsonObject:
        """What may be kept of it."""
        ...

    async def open(self, owner: RunOwner, storage: StorageOfRun) -> RunSandbox:
        """A sandbox as the owner's configuration says. No code runs yet. Raises InputError for more than the operator
        allows.
        """
        ...


@asynccontextmanager
async def storage_of_run(
    trees: OrganisationTrees | None, owner: RunOwner, order: SandboxOrder, execution_id: str
) -> AsyncGenerator[StorageOfRun]:
    """Hold what an execution uses until the block ends. `trees` None: nothing is stored here.

    Raises TreeBusyError, VolumeMissingError, TreeFullError, StorageError, DatabaseError.
    """
    chosen = {slug_of(path) for path in order.sub_paths}
    volumes = [one for one in owner.configuration.volumes if not chosen or one.slug in chosen]
    written: dict[str, HeldTree] = {}
    read: dict[str, Snapshot] = {}
    async with AsyncExitStack() as stack:
        thread: HeldTree | None = None
        if trees is None and (order.thread_id is not None or volumes):
            raise InputError("nothing is stored at this service; leave thread_id out")
        if trees is not None:
            if order.thread_id is not None:
                name = TreeName(kind="thread", name=order.thread_id, owner=owner.thread_owner)
                thread = await stack.enter_async_context(trees.hold(name, execution_id))
            for volume in volumes:
                name = TreeName(kind="volume", name=volume.slug)
                try:
                    if volume.writable:
                        written[volume.slug] = await stack.enter_async_context(trees.hold(name, execution_id))
                    else:
                        read[volume.slug] = await trees.snapshot(name)
                except UnknownTreeError:
                    raise VolumeMissingError(volume.slug) from None
        yield StorageOfRun(thread=thread, written=written, read=read, sub_paths=order.sub_paths)
