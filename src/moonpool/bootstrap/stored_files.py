"""Stored trees of a service over HTTP: the routes, and what they use of tenants, the database and settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.server.http.application import asgi_route
from moonpool.server.http.authentication.resource import checked_public_url
from moonpool.server.http.request_log import BLOBS_PATH
from moonpool.server.http.storage.access import StoredFiles
from moonpool.server.http.storage.blobs import DESCRIBED, Blobs
from moonpool.server.http.storage.file_routes import FileRoutes
from moonpool.server.http.storage.signed_urls import SignedUrls
from moonpool.server.http.storage.transfers import Transfers
from moonpool.server.http.storage.tree_routes import TreeRoutes
from moonpool.store.paths import DEFAULT_TENANT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from starlette.routing import BaseRoute

    from moonpool.bootstrap.stores import Stores
    from moonpool.bootstrap.tenant import Tenant
    from moonpool.core.audit import Journal
    from moonpool.features.caller_limits.service import CallerLimiter
    from moonpool.features.sandbox_configurations.model import SandboxConfiguration
    from moonpool.features.storage.base import Trees
    from moonpool.redaction.redactor import Redactor
    from moonpool.server.http.callers import HttpCaller
    from moonpool.server.http.lapsed_callers import FindLapsed
    from moonpool.server.http.sessions.operations import Operation
    from moonpool.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageOfService:
    """Trees of all organisations, and what callers' sandboxes have of them."""

    trees: Trees
    configuration_of: Callable[[HttpCaller], Awaitable[SandboxConfiguration]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageFace:
    """What a service offers of stored trees; empty without any."""

    operations: Sequence[Operation] = ()
    public: Sequence[BaseRoute] = ()
    transfers: Transfers


def storage_face(
    storage: StorageOfService | None,
    settings: Settings,
    *,
    state: Path,
    stores: Stores,
    tenant_of: Callable[[str], Awaitable[Tenant]],
    limiter: CallerLimiter,
    find_lapsed: FindLapsed | None,
) -> StorageFace:
    """Raises ConfigError."""
    transfers = Transfers()
    if storage is None:
        return StorageFace(transfers=transfers)

    async def records_of(organisation: str) -> tuple[Journal, Redactor]:
        runtime = (await tenant_of(organisation)).runtime
        return runtime.journal, runtime.redactor

    stored = StoredFiles(trees=storage.trees, records_of=records_of, configuration_of=storage.configuration_of)
    urls = SignedUrls(
        load_key=lambda: stores.of(DEFAULT_TENANT, state).url_key(),
        lifetime_s=settings.signed_url_s,
        public_url=checked_public_url(settings.public_url) if settings.public_url else "",
        find_lapsed=find_lapsed,
    )
    return StorageFace(
        operations=(*FileRoutes(stored, urls).operations(), *TreeRoutes(stored).operations(), *DESCRIBED),
        public=(asgi_route(f"{BLOBS_PATH}{{token}}", Blobs(stored, urls, transfers, limiter.take)),),
        transfers=transfers,
    )
