"""The tool registry: which tools there are, followed from snapshot to snapshot.

A server's listing comes from the disk cache while it is fresh, so that a start connects to nothing; else the server is
asked, all servers at once. A server that cannot be reached loses its own tools only: its package is there and says so
on import. When a server says that its list changed, or a cached one is used for the first time, it is asked again, and
everybody who follows the tool registry gets the new snapshot. The library (saved actions, skills) stands beside the
tools; whether somebody changed it is looked at before each use of a snapshot.

What a snapshot is: `moonpool.tools.snapshot`. Its tree on disk: `moonpool.tools.wrapper_tree`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar

from moonpool.core.errors import MoonpoolError
from moonpool.core.manifest import Manifest, ServerListing
from moonpool.features.drift.service import check_shown, choose
from moonpool.features.library.service import ShownLibrary
from moonpool.tools.changes import Changes
from moonpool.tools.relisting import Relisting
from moonpool.tools.snapshot import ToolSnapshot
from moonpool.tools.update_times import UpdateClock
from moonpool.tools.wrapper_tree import tree_digest, write_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from moonpool.configuration.server_config import Exposure, ServerLeftOutError
    from moonpool.features.drift.model.changes import ToolDiff
    from moonpool.features.drift.service import DriftWatch
    from moonpool.features.library.service import LibraryView
    from moonpool.upstreams.base import Upstream, UpstreamSource

_log = logging.getLogger(__name__)
_LAST_REFRESH_S = 2.0
_T = TypeVar("_T")


class ListingCache(Protocol):
    """Keeps listings between processes (`moonpool.tools.listing_cache`)."""

    def load(self, key: str) -> CachedListing | None: ...
    def save(self, key: str, listing: ServerListing, era: str, listed_at: float) -> None: ...


class CachedListing(Protocol):
    """A kept listing, when it was made (seconds since 1970) and the protocol revision spoken then."""

    @property
    def listing(self) -> ServerListing: ...
    @property
    def listed_at(self) -> float: ...


class ToolRegistry:
    """The tools of a set of servers. One per process and configuration."""

    def __init__(  # noqa: PLR0913  parts of the composition
        self,
        keys: Mapping[str, str],
        upstreams: UpstreamSource,
        cache: ListingCache,
        trees: Path,
        *,
        ttl_s: float,
        watch: DriftWatch,
        shows_instructions: Callable[[str], bool] = lambda _: True,
        exposures: Mapping[str, Exposure] = MappingProxyType({}),
        prefixes: Mapping[str, str] = MappingProxyType({}),
        cleaned: Callable[[ServerListing], ServerListing] = lambda listing: listing,
        library: LibraryView | None = None,
        left_out: Mapping[str, ServerLeftOutError] = MappingProxyType({}),
    ) -> None:
        """`cleaned` takes the servers' secrets out of what they say of themselves.

        Servers that are `left_out` are named wherever one is missed, and never asked. `exposures`: who may use them.
        """
        self._left_out = left_out
        self._cleaned, self._library = cleaned, library
        self._watch = watch
        self._keys, self._upstreams, self._cache, self._trees = dict(keys), upstreams, cache, trees
        self._ttl_s = ttl_s
        self._shows_instructions, self._exposures = shows_instructions, dict(exposures)
        self.prefixes = prefixes  # of the names of servers' tools, where clients call them without code
        self._listings: dict[str, ServerListing] = {}
        self._problems: dict[str, MoonpoolError] = dict(left_out)
        self._relisting: dict[str, asyncio.Task[ToolSnapshot]] = {}
        self._unverified: set[str] = set()
        self._snapshot: ToolSnapshot | None = None
        self.changes = Changes(upstreams)
        self._loading = asyncio.Lock()
        self._asking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._updates = UpdateClock()
        self._notified = Relisting(self.refresh)
        self._followers: set[Callable[[ToolSnapshot], None]] = set()
        self._tasks: set[asyncio.Task[object]] = set()

    @property
    def server_ids(self) -> tuple[str, ...]:
        """Every configured server that code may use, whether its tools are known or not."""
        return tuple(one for one in (*self._keys, *self._left_out) if self._exposures.get(one) != "direct")

    @property
    def all_ids(self) -> tuple[str, ...]:
        """Every configured server."""
        return (*self._keys, *self._left_out)

    @property
    def direct_ids(self) -> tuple[str, ...]:
        """Every configured server that clients may use without code."""
        return tuple(one for one in self._keys if self._exposures.get(one, "code") != "code")

    @property
    def problems(self) -> dict[str, MoonpoolError]:
        """Why servers are left out or could not be listed, as far as it is known, as the operator may read it."""
        return dict(self._problems)

    @property
    def left_out(self) -> dict[str, str]:
        """Servers whose entry cannot be used, and why, as code and models may read it."""
        return {server_id: error.for_guest for server_id, error in self._left_out.items()}

    async def snapshot(self) -> ToolSnapshot:
        """The current snapshot; the first call loads every listing."""
        if self._snapshot is not None:
            await self.recheck_library()
            return self._snapshot
        async with self._loading:
            if self._snapshot is None:
                await asyncio.gather(*(self._load(server_id) for server_id in self._keys))
                self._snapshot = await self._make_snapshot()
                self.changes.know(self._snapshot)
        return self._snapshot

    @property
    def current(self) -> ToolSnapshot | None:
        """The current snapshot, if anything has been loaded yet."""
        return self._snapshot

    def follow(self, follower: Callable[[ToolSnapshot], None]) -> Callable[[], None]:
        """Call `follower` with every new snapshot. Returns the function that ends it."""
        self._followers.add(follower)
        return lambda: self._followers.discard(follower)

    def get(self, server_id: str) -> Upstream | None:
        """The upstream, for a call. A listing that came from the cache is checked in the background from now on."""
        if server_id in self._unverified:
            self._unverified.discard(server_id)
            self._updates.asks(server_id)
            self.refresh_soon(server_id)
        return self._upstreams.get(server_id)

    def forget_caller(self, session_id: str) -> None:
        """A session is over: its subscriptions end."""
        for server_id in self._keys:
            if (upstream := self._upstreams.get(server_id)) is not None:
                upstream.forget_caller(session_id)

    def refresh_soon(self, server_id: str) -> None:
        """Ask the server again in the background (it said that its list changed)."""
        if server_id in self._keys:
            self._updates.told(server_id)
            self._notified.ask_soon(server_id)

    async def refresh(self, server_id: str | None = None) -> ToolSnapshot:
        """Ask one server, or all, again now."""
        for one in [server_id] if server_id else list(self._keys):
            self._unverified.discard(one)
            await self._ask(one)
        return await self._renew()

    async def add(self, server_id: str, key: str, listing: ServerListing) -> ToolSnapshot:
        """Take in one more server, or another in place of one, with the tools that it has just listed.

        The caller puts it into the upstream source as soon as this returns. What is raised has changed nothing.
        """
        await self.snapshot()  # whose first making loads all others
        cleaned = await asyncio.to_thread(self._cleaned, listing)
        async with self._asking[server_id], self._loading:
            key_before, left_out = self._keys.get(server_id), self._left_out
            problem, listed = self._problems.get(server_id), self._listings.get(server_id)
            exposure_before = self._exposures.get(server_id)
            self.expect(server_id, key)
            self._left_out = {name: error for name, error in left_out.items() if name != server_id}
            self._problems.pop(server_id, None)
            self._listings[server_id] = cleaned
            try:
                snapshot = await self._make_snapshot()
            except BaseException:
                self._left_out = left_out
                _put_back(self._problems, server_id, problem)
                _put_back(self._listings, server_id, listed)
                _put_back(self._keys, server_id, key_before)
                _put_back(self._exposures, server_id, exposure_before)
                if key_before is not None:
                    self._watch.watch(server_id, key_before)
                raise
            self._unverified.discard(server_id)
            return self._show(snapshot)

    async def load(self, server_ids: Iterable[str]) -> None:
        """Load the tools of servers that came after the first snapshot; that one loads them itself."""
        if self._snapshot is not None:
            await asyncio.gather(*map(self._load, server_ids))
            await self._renew()

    async def remove(self, server_id: str) -> None:
        """Show the tools of a server no longer. The caller takes it out of the upstream source."""
        async with self._asking[server_id], self._loading:
            self._left_out = {name: error for name, error in self._left_out.items() if name != server_id}
            for table in (self._keys, self._listings, self._problems, self._exposures):
                table.pop(server_id, None)
            self._unverified.discard(server_id)
            if self._snapshot is not None:
                self._show(await self._make_snapshot())

    def expect(self, server_id: str, key: str, exposure: Exposure = "code") -> None:
        """One more server, whose tools the first snapshot loads, or else `load`."""
        self._keys[server_id] = key
        self._exposures[server_id] = exposure
        self._watch.watch(server_id, key)

    def leave_out(self, server_id: str, error: ServerLeftOutError) -> None:
        """One more server whose entry cannot be used. The next snapshot says so."""
        self._left_out = {**self._left_out, server_id: error}
        self._problems[server_id] = error

    async def relist(self, server_id: str) -> MoonpoolError | None:
        """Ask a server whose tools could not be listed once more, for all who wait together; why it failed again.

        How often a failing server is really asked is for its circuit to say.
        """
        if server_id not in self._keys or server_id in self._listings:
            return self._left_out.get(server_id)
        asking = self._relisting.get(server_id)
        if asking is None:
            asking = self._relisting[server_id] = asyncio.ensure_future(self.refresh(server_id))
            self._tasks.add(asking)
            asking.add_done_callback(self._tasks.discard)
            asking.add_done_callback(lambda _: self._relisting.pop(server_id, None))
        await asyncio.shield(asking)
        return self._problems.get(server_id)

    async def recheck(self) -> None:
        """Look whether changed tools were accepted meanwhile, here or by another process."""
        if await self._watch.has_moved():
            await self._renew()

    async def recheck_library(self) -> None:
        """Look whether saved actions or skills changed meanwhile, here or by another process.

        A changed library that cannot be shown leaves what was shown before, and says so.
        """
        if self._snapshot is None or self._library is None:
            return
        try:
            if await self._library.has_moved():
                await self._renew()
        except (OSError, MoonpoolError) as error:
            self._library.forget()
            _log.error("the changed library cannot be shown: %s", error)

    async def refresh_every(self, seconds: float) -> NoReturn:
        """Ask all servers again and again, so that a change that no server tells is found too (H-091)."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.refresh()
            except Exception as error:  # noqa: BLE001  the next turn may fare better; nobody else would ever ask again
                _log.error("the tool lists cannot be refreshed: %s: %s", type(error).__name__, error)

    async def accept(self, name: str, shown: str) -> tuple[ToolDiff, ...]:
        """Accept the open changes of SERVER or SERVER.TOOL; `shown` is the digest that went with them.

        Raises InputError when there are none or they are others by now, and JournalError.
        """
        snapshot = await self.snapshot()
        diffs = choose(snapshot.changes, name, self._keys)
        check_shown(diffs, shown)
        server_id = diffs[0].server_id
        wanted = {diff.tool_name: diff.after_digest for diff in diffs}
        tools = [tool for tool in self._listings[server_id].tools if wanted.get(tool.name) == tool.digest]
        whole = len(diffs) == sum(diff.server_id == server_id for diff in snapshot.changes)
        await self._watch.accept(diffs, tools, whole=whole)
        await self._renew()
        return diffs

    async def _renew(self) -> ToolSnapshot:
        async with self._loading:
            return self._show(await self._make_snapshot())

    def _show(self, snapshot: ToolSnapshot) -> ToolSnapshot:
        before, self._snapshot = self._snapshot, snapshot
        if before is None or _seen(snapshot) != _seen(before):
            self.changes.show(snapshot)
            for follower in tuple(self._followers):
                follower(snapshot)
        return snapshot

    async def close(self) -> None:
        """Let a background check end, so that the next process finds a fresh cache; not for long."""
        await self.changes.close()
        await self._notified.close(_LAST_REFRESH_S)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LAST_REFRESH_S)
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _load(self, server_id: str) -> None:
        if (key := self._keys.get(server_id)) is None:
            return  # it was removed meanwhile
        cached = await asyncio.to_thread(self._cache.load, key)
        if cached is not None and 0 <= time.time() - cached.listed_at < self._ttl_s:
            listing = await asyncio.to_thread(self._cleaned, cached.listing)
            if self._keys.get(server_id) != key:
                return
            self._listings[server_id] = listing
            self._unverified.add(server_id)
            self._updates.answered(server_id, self._listings[server_id], at=cached.listed_at)
        else:
            if cached is not None:
                listed = await asyncio.to_thread(self._cleaned, cached.listing)
                self._updates.answered(server_id, listed, at=cached.listed_at)
            await self._ask(server_id)

    async def _ask(self, server_id: str) -> None:
        """INVARIANT: a server is asked by one at a time, else an older answer could take the place of a newer one."""
        self._updates.asks(server_id)
        async with self._asking[server_id]:
            upstream = self._upstreams.get(server_id)
            if upstream is None or server_id not in self._keys:
                return  # it could not be added, or was removed
            try:
                listing = await asyncio.to_thread(self._cleaned, await upstream.list_tools())
            except MoonpoolError as error:
                self._problems[server_id] = error
                return
            self._problems.pop(server_id, None)
            self._listings[server_id] = listing
            self._updates.answered(server_id, listing)
            key, era = self._keys[server_id], upstream.protocol_version or ""
            await asyncio.to_thread(self._cache.save, key, listing, era, time.time())

    async def _make_snapshot(self) -> ToolSnapshot:
        state = await self._watch.review({one: self._listings[one] for one in self._keys if one in self._listings})
        kept = await asyncio.to_thread(self._library.read) if self._library is not None else ShownLibrary()
        servers = tuple(self._shown(one) for one in state.listings.values())
        of_code = tuple(one for one in servers if self._exposures.get(one.server_id) != "direct")
        direct = tuple(one for one in servers if self._exposures.get(one.server_id, "code") != "code")
        manifest = Manifest(servers=of_code, held=state.held, library=kept.library)
        missing = sorted(set(self.server_ids) - set(self._listings))
        reasons = self.left_out
        digest = tree_digest(manifest, missing, reasons)
        tree = self._trees / digest.removeprefix("sha256:")[:32]
        if not await asyncio.to_thread(tree.exists):
            await asyncio.to_thread(write_tree, tree, manifest, missing, reasons)
        await self._watch.tell_updates(self._updates.shown())
        return ToolSnapshot(
            manifest=manifest,
            direct=Manifest(servers=direct, held=state.held),
            tree=tree,
            digest=digest,
            problems={server_id: str(error) for server_id, error in self._problems.items()},
            changes=state.open,
            missing=tuple(missing),
            reasons=reasons,
            library_problems=kept.problems,
        )

    def _shown(self, listing: ServerListing) -> ServerListing:
        if listing.instructions and not self._shows_instructions(listing.server_id):
            return ServerListing.from_json({**listing.to_json(), "instructions": ""})
        return listing


def _seen(snapshot: ToolSnapshot) -> tuple[object, ...]:
    """What followers are told about when it is another one."""
    return snapshot.digest, snapshot.changes, snapshot.direct.digest


def _put_back(table: dict[str, _T], server_id: str, value: _T | None) -> None:
    if value is None:
        table.pop(server_id, None)
    else:
        table[server_id] = value
