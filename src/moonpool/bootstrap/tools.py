"""The tools: upstream servers, what is remembered of them, and the box that shows them to code."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from moonpool.bootstrap.places import data_folder
from moonpool.runtime.tools import Toolbox
from moonpool.store.manifests import CachedListing, ManifestCache
from moonpool.store.paths import manifest_dir

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    from moonpool.broker.config import McpConfig
    from moonpool.broker.upstreams.base import Upstream
    from moonpool.broker.upstreams.questions import QuestionHandlers
    from moonpool.core.manifest import ServerListing
    from moonpool.settings import Settings


@asynccontextmanager
async def assemble_tools(
    settings: Settings,
    *,
    config: McpConfig | None,
    environ: Mapping[str, str],
    handlers: QuestionHandlers | None = None,
) -> AsyncGenerator[Toolbox]:
    """The tools alone, for commands that run no code: no sandbox, no journal, no environment."""
    async with AsyncExitStack() as stack:
        data = data_folder(settings, environ)
        yield await open_toolbox(stack, settings, config, environ, data, wanted=True, handlers=handlers)


async def open_toolbox(
    stack: AsyncExitStack,
    settings: Settings,
    config: McpConfig | None,
    environ: Mapping[str, str],
    data: Path,
    *,
    wanted: bool,
    handlers: QuestionHandlers | None = None,
) -> Toolbox:
    from moonpool.broker.config import McpConfig, resolved_key  # noqa: PLC0415

    servers = (config or McpConfig(source="")).servers if wanted else ()
    keys = {server.server_id: resolved_key(server) for server in servers}
    shown = {server.server_id for server in servers if server.instructions}
    cache = _Cache(ManifestCache(manifest_dir(data)))
    source = _NoUpstreams()
    boxes: list[Toolbox] = []
    if config is not None and keys:
        from moonpool.broker.upstreams import open_upstreams  # noqa: PLC0415

        eras = await asyncio.to_thread(_known_eras, keys, cache)
        source = await stack.enter_async_context(
            open_upstreams(
                config,
                environ=environ,
                known_eras=eras,
                on_listing_changed=lambda server_id: boxes[0].refresh_soon(server_id) if boxes else None,
                handlers=handlers,
            )
        )
    toolbox = Toolbox(
        keys,
        source,
        cache,
        data / "trees",
        ttl_s=settings.manifest_ttl_s,
        shows_instructions=shown.__contains__,
    )
    boxes.append(toolbox)
    stack.push_async_callback(toolbox.close)
    return toolbox


def _known_eras(keys: Mapping[str, str], cache: _Cache) -> dict[str, str]:
    """The protocol revision that each server spoke last; saves the probe."""
    found = {server_id: cache.load(key) for server_id, key in keys.items()}
    return {server_id: cached.era for server_id, cached in found.items() if cached is not None and cached.era}


class _NoUpstreams:
    """No server is configured."""

    def get(self, server_id: str) -> Upstream | None:
        del server_id
        return None


class _Cache:
    """The disk cache as the toolbox uses it."""

    def __init__(self, cache: ManifestCache) -> None:
        self._cache = cache

    def load(self, key: str) -> CachedListing | None:
        return self._cache.load(key)

    def save(self, key: str, listing: ServerListing, era: str, listed_at: float) -> None:
        self._cache.save(key, CachedListing(listing=listing, era=era, listed_at=listed_at))
