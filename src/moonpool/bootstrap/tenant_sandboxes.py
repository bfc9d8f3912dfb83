"""Sandboxes of a tenant for executions by one call: a session each, with its limits and the stored trees it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from moonpool.bootstrap.narrowed_runtimes import NarrowedRuntimes, WantedRuntime
from moonpool.engine.sandbox_runs.orders import CODE_BYTES_MAX, slug_of
from moonpool.engine.stored_files.model import VOLUMES, WORKSPACE, Mount
from moonpool.engine.stored_files.remembered_packages import RememberedPackages
from moonpool.engine.stored_files.run_storage import RunStorage
from moonpool.features.execution_records.model import STREAM_BYTES_MAX
from moonpool.features.webhooks.model import PrivateHosts
from moonpool.network.rules import parse_domains
from moonpool.redaction.redactor import Tally

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.bootstrap.tenant import Tenant
    from moonpool.core.envelope import Envelope
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.engine.code_request import CodeRequest
    from moonpool.engine.runtime import Runtime
    from moonpool.engine.sandbox_runs.base import RunOwner
    from moonpool.engine.sandbox_runs.sandboxes import RunSandbox, StorageOfRun
    from moonpool.engine.sessions import Session
    from moonpool.engine.stored_files.volumes import ShownVolumes
    from moonpool.features.sandbox_configurations.model import SandboxConfiguration
    from moonpool.features.storage.base import HeldTree, Snapshot

_RUNTIMES_MAX: Final = 64


@dataclass(slots=True)
class SessionSandbox:
    """A `RunSandbox`: a session that runs once."""

    runtime: Runtime
    session: Session
    has_network: bool
    run_id: str = ""

    async def execute(self, request: CodeRequest) -> Envelope:
        self.run_id = request.run_id
        return await self.session.execute(request)

    def interrupt(self) -> None:
        self.session.interrupt()

    def close_soon(self) -> None:
        self.runtime.close_soon(self.session)

    @property
    def was_blocked(self) -> bool:
        return self.has_network and bool(self.session.network.refusals(self.run_id))


class TenantSandboxes:
    """A `SandboxSource`."""

    stream_bytes_max = STREAM_BYTES_MAX

    def __init__(self, tenant: Tenant, volumes: ShownVolumes) -> None:
        self.tenant, self._volumes = tenant, volumes
        self.timeout_s_max = tenant.settings.timeout_s_max
        self.private_hosts = PrivateHosts.parse(tenant.settings.webhook_private_hosts)
        self._runtimes, self._known = NarrowedRuntimes(tenant), dict[WantedKey, "Runtime"]()

    def redacted(self, metadata: Mapping[str, JsonValue]) -> JsonObject:
        return self.tenant.runtime.redactor.json_object(dict(metadata), Tally())

    async def open(self, owner: RunOwner, storage: StorageOfRun) -> RunSandbox:
        configuration = owner.configuration
        runtime = await self._runtime(configuration)
        rules = None if configuration.network is None else parse_domains(configuration.network)
        stored = None if storage.is_empty else self._stored(storage, runtime.settings.transfer_timeout_s)
        session = runtime.session(owner.grant, final=True, network=rules, storage=stored)
        return SessionSandbox(runtime, session, rules is not None)

    def _stored(self, storage: StorageOfRun, timeout_s: float) -> RunStorage:
        mounts: list[Mount] = []
        thread = storage.thread
        if thread is not None:
            mounts.append(Mount(place=WORKSPACE, snapshot=thread.snapshot, held=thread))
        for slug, held in storage.written.items():
            mounts.append(_volume(slug, storage, held.snapshot, held))
        for slug, snapshot in storage.read.items():
            mounts.append(_volume(slug, storage, snapshot))
        return RunStorage(
            mounts=tuple(mounts),
            timeout_s=timeout_s,
            volumes=self._volumes,
            packages=None if thread is None else RememberedPackages(snapshot=thread.snapshot),
        )

    async def _runtime(self, configuration: SandboxConfiguration) -> Runtime:
        key = WantedKey.of(configuration)
        if (known := self._known.get(key)) is not None:
            return known
        limits = {
            "memory_bytes": key.memory_bytes,
            "cpu_cores": key.cpu_cores,
            "cpu_s": key.cpu_s,
            "disk_bytes": key.disk_bytes,
            "processes": key.processes,
        }
        runtime = await self._runtimes.runtime(WantedRuntime(environment=key.environment, limits=limits))
        runtime.settings = msgspec.structs.replace(
            runtime.settings,
            code_bytes_max=CODE_BYTES_MAX,
            stdout_bytes_max=STREAM_BYTES_MAX,
            stderr_bytes_max=STREAM_BYTES_MAX,
        )
        while len(self._known) >= _RUNTIMES_MAX:
            del self._known[next(iter(self._known))]
        self._known[key] = runtime
        return runtime


@dataclass(frozen=True, slots=True)
class WantedKey:
    """What of a configuration makes another runtime."""

    environment: str | None
    memory_bytes: int | None
    cpu_cores: float | None
    cpu_s: int | None
    disk_bytes: int | None
    processes: int | None

    @classmethod
    def of(cls, one: SandboxConfiguration) -> WantedKey:
        return cls(one.environment, one.memory_bytes, one.cpu_cores, one.cpu_s, one.disk_bytes, one.processes)


def _volume(slug: str, storage: StorageOfRun, snapshot: Snapshot, held: HeldTree | None = None) -> Mount:
    """A volume, or those of its folders that the order names."""
    start = f"{VOLUMES}/{slug}"
    named = [path.removeprefix(start).strip("/") for path in storage.sub_paths if slug_of(path) == slug]
    sub_paths = () if "" in named else tuple(named)
    return Mount(place=start, snapshot=snapshot, held=held, sub_paths=sub_paths)
