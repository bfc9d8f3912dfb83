"""Tools: upstream servers, their caches, and the tool registry."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.bootstrap.caller_grants import local_principal
from moonpool.bootstrap.folders import data_folder
from moonpool.bootstrap.stores import open_stores
from moonpool.engine.tool_registry import ToolRegistry
from moonpool.features.drift.service import DriftWatch
from moonpool.features.learned_types.service import LearnedTypes
from moonpool.features.learned_types.table import LearnedTypeStore
from moonpool.features.library.service import LibraryView
from moonpool.redaction.known_values import GrowingValues
from moonpool.redaction.listings import without_secrets
from moonpool.redaction.redactor import Redactor, Tally
from moonpool.store.paths import DEFAULT_TENANT, learned_types_dir, manifest_dir, tenant_dir
from moonpool.tools.listing_cache import CachedListing, ManifestCache

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from moonpool.bootstrap.stores import TenantStores
    from moonpool.configuration.server_config import Exposure
    from moonpool.configuration.servers import McpConfig, ServerConfig
    from moonpool.core.audit import Journal
    from moonpool.core.audit_records import DriftRecord, ToolUpdateRecord
    from moonpool.core.manifest import ServerListing
    from moonpool.oauth.credentials import Credentials
    from moonpool.oauth.login import UserAgent
    from moonpool.settings import Settings
    from moonpool.upstreams.base import Upstream
    from moonpool.upstreams.opening import Upstreams
    from moonpool.upstreams.server_requests import ServerRequestHandlers


@asynccontextmanager
async def assemble_tools(
    settings: Settings,
    *,
    config: McpConfig | None,
    environ: Mapping[str, str],
    handlers: ServerRequestHandlers | None = None,
    agent: UserAgent | None = None,
    tenant_id: str = DEFAULT_TENANT,
) -> AsyncGenerator[ToolRegistry]:
    """Only a tenant's tools, for commands that run no code: no sandbox, no journal, no environment.

    `agent` can show a person where to log in; without one, a server that needs a login is reported as such.
    """
    async with AsyncExitStack() as stack:
        data = data_folder(settings, environ)
        folder = tenant_dir(data, tenant_id)
        drift = DriftRecords(settings, folder, make_redactor(settings, config), tenant_id=tenant_id)
        stores = (await stack.enter_async_context(open_stores(settings, data, environ))).of(tenant_id, folder)
        opened = await open_tool_registry(
            stack, settings, config, environ, drift, stores, handlers=handlers, agent=agent
        )
        yield opened.registry


def make_redactor(settings: Settings, config: McpConfig | None, growing: GrowingValues | None = None) -> Redactor:
    """A redactor for the configuration's secrets, values in `growing`, and strings that look like secrets."""
    return Redactor.of(
        _named_secrets(config),
        patterns=settings.redact_patterns == "on",
        personal=settings.personal_kinds,
        growing=growing,
    )


def make_known_values(config: McpConfig | None, growing: GrowingValues) -> Redactor:
    """A redactor without patterns, for text that patterns must not change."""
    return Redactor.of(_named_secrets(config), patterns=False, growing=growing)


def _named_secrets(config: McpConfig | None) -> dict[str, str]:
    values = sorted(config.secrets) if config is not None else []  # deterministic, unlike the set's order
    return {f"SECRET_{index}": value for index, value in enumerate(values, start=1)}


def make_learned_types(settings: Settings, config: McpConfig | None, data: Path, redactor: Redactor) -> LearnedTypes:
    """The types learned, now and later, from calls to these servers."""
    from moonpool.configuration.servers import McpConfig, resolved_key  # noqa: PLC0415

    servers = (config or McpConfig(source="")).servers
    return LearnedTypes(
        {server.server_id: resolved_key(server) for server in servers},
        LearnedTypeStore(learned_types_dir(data)),
        redact=lambda arguments: redactor.json_object(arguments, Tally()),
        examples=settings.learn == "on",
        enabled=settings.learn != "off",
    )


class DriftRecords:
    """Writes records about changed tools; opens the command line's journal unless one is open."""

    def __init__(
        self,
        settings: Settings,
        data: Path,
        redactor: Redactor,
        journal: Journal | None = None,
        tenant_id: str = DEFAULT_TENANT,
    ) -> None:
        self.data, self._settings, self._redactor, self._journal = data, settings, redactor, journal
        self._tenant_id = tenant_id

    async def write(self, records: Sequence[DriftRecord | ToolUpdateRecord]) -> None:
        """Commit `records`. Raises JournalError."""
        if self._journal is not None:
            await _commit(self._journal, records)
            return
        from moonpool.store.journals import open_journal_place  # noqa: PLC0415  most commands need none

        async with (
            open_journal_place(self._settings, self.data, self._tenant_id) as place,
            place.open(lazily=False) as journal,
        ):
            await _commit(journal, records)

    def redact(self, text: str) -> str:
        return self._redactor.text(text, Tally())


async def _commit(journal: Journal, records: Sequence[DriftRecord | ToolUpdateRecord]) -> None:
    for record in records:
        await journal.record(record)


async def open_tool_registry(  # noqa: PLR0913  parts of the composition
    stack: AsyncExitStack,
    settings: Settings,
    config: McpConfig | None,
    environ: Mapping[str, str],
    drift: DriftRecords,
    stores: TenantStores,
    *,
    handlers: ServerRequestHandlers | Callable[[ServerConfig], ServerRequestHandlers] | None = None,
    agent: UserAgent | None = None,
    on_secrets: Callable[[str, frozenset[str]], None] | None = None,
) -> OpenTools:
    """`on_secrets` gets a server id and its tokens before they are sent anywhere."""
    from moonpool.configuration.servers import McpConfig, resolved_key  # noqa: PLC0415

    data = drift.data
    servers = (config or McpConfig(source="")).servers
    keys = {server.server_id: resolved_key(server) for server in servers}
    shown = {server.server_id for server in servers if server.instructions}
    exposures: dict[str, Exposure] = {server.server_id: server.expose for server in servers}
    cache = _Cache(ManifestCache(manifest_dir(data)))
    source = ServerSource()
    boxes: list[ToolRegistry] = []
    tokens = GrowingValues()
    known = make_known_values(config, tokens)

    def learn(server_id: str, values: frozenset[str]) -> None:
        tokens.set_values(server_id, values)
        if on_secrets is not None:
            on_secrets(server_id, values)

    @asynccontextmanager
    async def opened(config: McpConfig, eras: Mapping[str, str]) -> AsyncGenerator[Upstreams]:
        """The upstreams of a configuration, and their credentials."""
        from moonpool.upstreams import open_upstreams  # noqa: PLC0415

        async with AsyncExitStack() as parts:
            credentials: dict[str, Credentials] = {}
            if any(server.url for server in config.servers):
                from moonpool.bootstrap.logins import make_credentials  # noqa: PLC0415  with all of OAuth

                logins = stores.logins(of_own=any(server.public_only for server in config.servers))
                credentials = make_credentials(config, logins, agent=agent, on_secrets=learn)
            for one in credentials.values():
                parts.push_async_callback(one.close)
            yield await parts.enter_async_context(
                open_upstreams(
                    config,
                    environ=environ,
                    known_versions=eras,
                    on_listing_changed=lambda server_id: boxes[0].refresh_soon(server_id) if boxes else None,
                    on_change=lambda change: boxes[0].changes.heard(change) if boxes else None,
                    handlers=handlers,
                    credentials=credentials,
                )
            )

    if config is not None and keys:
        eras = await asyncio.to_thread(_known_versions, keys, cache)
        source.put(await stack.enter_async_context(opened(config, eras)))
    tool_registry = ToolRegistry(
        keys,
        source,
        cache,
        data / "trees",
        ttl_s=settings.manifest_ttl_s,
        watch=DriftWatch(
            keys,
            stores.acceptances(),
            pauses=settings.drift == "pause",
            principal=local_principal(),
            record=drift.write,
            redact=drift.redact,
        ),
        shows_instructions=shown.__contains__,
        exposures=exposures,
        prefixes={server.server_id: server.prefix for server in servers if server.prefix},
        cleaned=lambda listing: without_secrets(listing, known),
        library=LibraryView(stores.library(), holds_secret=lambda content: known.data(content, Tally()) != content),
        left_out=config.left_out if config is not None else {},
    )
    boxes.append(tool_registry)
    stack.push_async_callback(tool_registry.close)
    return OpenTools(registry=tool_registry, source=source, open_upstreams=lambda more: opened(more, {}), learn=learn)


def _known_versions(keys: Mapping[str, str], cache: _Cache) -> dict[str, str]:
    """The protocol revision that each server last used; saves a probe."""
    found = {server_id: cache.load(key) for server_id, key in keys.items()}
    return {server_id: cached.era for server_id, cached in found.items() if cached is not None and cached.era}


class ServerSource:
    """The upstreams of a configuration, and of servers that came later."""

    def __init__(self) -> None:
        self._by_id: dict[str, Upstream] = {}

    def put(self, upstreams: Upstreams) -> None:
        """Take these in, in place of those with the same ids."""
        self._by_id.update({server_id: one for server_id in upstreams.ids if (one := upstreams.get(server_id))})

    def drop(self, server_id: str) -> None:
        """Call this one no longer."""
        self._by_id.pop(server_id, None)

    def get(self, server_id: str) -> Upstream | None:
        return self._by_id.get(server_id)


@dataclass(frozen=True, kw_only=True)
class OpenTools:
    """A tool registry, and what takes in more servers."""

    registry: ToolRegistry
    source: ServerSource
    open_upstreams: Callable[[McpConfig], AbstractAsyncContextManager[Upstreams]]
    learn: Callable[[str, frozenset[str]], None]  # server id, values that are secret from now on


class _Cache:
    """The disk cache behind the tool registry's interface."""

    def __init__(self, cache: ManifestCache) -> None:
        self._cache = cache

    def load(self, key: str) -> CachedListing | None:
        return self._cache.load(key)

    def save(self, key: str, listing: ServerListing, era: str, listed_at: float) -> None:
        self._cache.save(key, CachedListing(listing=listing, era=era, listed_at=listed_at))
