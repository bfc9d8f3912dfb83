"""The book of token counts: the one place where the figures of envelopes, `stats tokens` and `/metrics` are made.

Every definition is counted once, by its digest, in a thread: in memory for this process, in a store for the next. An
execution looks up; only one that is the first to see new tools waits, for `COUNT_WAIT_S` at most. What is not counted
then is left out of the figures, which say so (`uncounted`). A process in which nothing is new loads no tokenizer.

What one connection's model was shown: `moonpool.features.usage.context_usage`.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from threading import Event, Lock
from typing import TYPE_CHECKING, Final, Protocol

from moonpool.core.json import digest_bytes
from moonpool.core.version import VERSION
from moonpool.features.usage.model import TokenFigures, ToolTokens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from moonpool.core.manifest import ToolDefinition
    from moonpool.tools.snapshot import ToolSnapshot

COUNT_WAIT_S: Final = 2.0
"""How long an envelope waits for tools that are counted for the first time."""
COUNTS_MAX: Final = 50_000
_SNAPSHOTS_MAX: Final = 8


class CountStore(Protocol):
    """Keeps counts between processes (`moonpool.features.usage.table`)."""

    def load_totals(self, key: str, /) -> ToolTokens | None: ...
    def save_totals(self, key: str, totals: ToolTokens, /) -> bool: ...
    def load_counts(self) -> dict[str, int]: ...
    def save_counts(self, news: Mapping[str, int], /) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Unasked:
    """The texts that a model of this configuration gets before it asks for anything."""

    manifest: str = ""
    own_tools: str = ""


@dataclass(slots=True)
class _Job:
    """The counting of one snapshot."""

    snapshot: ToolSnapshot  # also keeps its id from being another's
    totals: ToolTokens
    task: asyncio.Task[None] | None = None


class ModelConnection(Protocol):
    """What one connection's model was shown (`moonpool.features.usage.context_usage.ContextUsage`)."""

    def figures(self, tools: ToolTokens, /) -> TokenFigures: ...
    def figures_now(self) -> TokenFigures: ...
    async def settled(self, within_s: float, /) -> bool: ...


@dataclass(kw_only=True)
class TokenAccounting:
    """The counts of one process. Used on one event loop; counts in threads, one at a time."""

    store: CountStore | None = None
    unasked: Callable[[ToolSnapshot], Unasked] = lambda _: Unasked()
    offer: str = ""  # which of our own tools are offered: `unasked` follows it
    connections: set[ModelConnection] = field(default_factory=set["ModelConnection"], init=False)  # of models, open now
    _jobs: dict[int, _Job] = field(default_factory=dict[int, _Job], init=False)
    _counts: dict[str, int] = field(default_factory=dict[str, int], init=False)
    _loaded: bool = field(default=False, init=False)
    _stop: Event = field(default_factory=Event, init=False)
    _turn: Lock = field(default_factory=Lock, init=False)

    def now(self, snapshot: ToolSnapshot | None) -> ToolTokens:
        """What is known now. Begins to count what is not."""
        return ToolTokens() if snapshot is None else self._job(snapshot).totals

    async def known(self, snapshot: ToolSnapshot | None, within_s: float | None = COUNT_WAIT_S) -> ToolTokens:
        """The same; waits for what is new, at most for `within_s`."""
        if snapshot is None:
            return ToolTokens()
        job = self._job(snapshot)
        if job.task is not None and not job.task.done():
            await asyncio.wait({job.task}, timeout=within_s)
        return job.totals

    async def figures(
        self, snapshot: ToolSnapshot | None, connection: ModelConnection | None, *, wait: bool = True
    ) -> TokenFigures:
        """For the envelope of an execution with these tools, asked for over `connection` if a model asked."""
        tools = await self.known(snapshot) if wait else self.now(snapshot)
        if connection is None:
            return TokenFigures(tools=tools)
        if wait:
            await connection.settled(COUNT_WAIT_S)
        return connection.figures(tools)

    def count(self, text: str, *, keep: bool = False) -> int:
        """Tokens of a text; blocking. `keep` one that comes again in other processes."""
        key = digest_bytes(text.encode("utf-8", "replace")) if keep else ""
        with self._turn:
            if keep and key not in self._counts:
                self._load()
            if (known := self._counts.get(key)) is not None:
                return known
            tokens = _count(text)
            if keep:
                self._add({key: tokens})
            return tokens

    async def close(self) -> None:
        """Stop counting; what is counted is kept."""
        self._stop.set()
        tasks = [job.task for job in self._jobs.values() if job.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _job(self, snapshot: ToolSnapshot) -> _Job:
        job = self._jobs.get(id(snapshot))
        if job is None:
            job = _Job(snapshot, ToolTokens(uncounted=sum(len(server.tools) for server in snapshot.manifest.servers)))
            if _has_something(snapshot):
                job.task = asyncio.ensure_future(asyncio.to_thread(self._work, job))
            self._jobs[id(snapshot)] = job
            for old in [key for key, one in self._jobs.items() if one.task is None or one.task.done()]:
                if len(self._jobs) > _SNAPSHOTS_MAX and old != id(snapshot):
                    del self._jobs[old]
        return job

    def _work(self, job: _Job) -> None:
        key = self._key(job.snapshot)
        if self.store is not None and (kept := self.store.load_totals(key)) is not None:
            job.totals = kept
            return
        with self._turn:
            self._load()
            news: dict[str, int] = {}
            for tool in job.snapshot.manifest.tools():
                if self._stop.is_set():
                    break
                tokens = self._counts.get(tool.digest)
                if tokens is None:
                    tokens = news[tool.digest] = _count_definition(tool)
                so_far = job.totals
                job.totals = replace(
                    so_far,
                    tools=so_far.tools + 1,
                    upfront=so_far.upfront + tokens,
                    uncounted=so_far.uncounted - 1,
                )
            self._add(news)
        if self._stop.is_set():
            return
        texts = self.unasked(job.snapshot)
        job.totals = replace(
            job.totals,
            manifest=self.count(texts.manifest, keep=True),
            own_tools=self.count(texts.own_tools, keep=True),
        )
        if self.store is not None:
            self.store.save_totals(key, job.totals)

    def _key(self, snapshot: ToolSnapshot) -> str:
        """Names everything that the figures depend on: definitions, what servers say of themselves, our own texts."""
        manifest = snapshot.manifest
        abouts = [[one.server_id, one.title, one.description, one.instructions] for one in manifest.servers]
        named = [VERSION, self.offer, manifest.digest, list(snapshot.missing), abouts]
        return digest_bytes(json.dumps(named).encode())  # servers' texts may hold half of a character

    def _load(self) -> None:
        if self.store is not None and not self._loaded:
            self._counts = {**self.store.load_counts(), **self._counts}
        self._loaded = True

    def _add(self, news: Mapping[str, int]) -> None:
        if not news:
            return
        if len(self._counts) + len(news) > COUNTS_MAX:
            self._counts.clear()
        self._counts.update(news)
        if self.store is not None:
            self.store.save_counts(news)


def _has_something(snapshot: ToolSnapshot) -> bool:
    """Where nothing is configured there is nothing that could be shown: all figures are 0."""
    manifest = snapshot.manifest
    return bool(manifest.servers or snapshot.missing or manifest.library)


def _count(text: str) -> int:
    from moonpool.catalog.tokens import count_tokens  # noqa: PLC0415  most processes count nothing

    return count_tokens(text)


def _count_definition(tool: ToolDefinition) -> int:
    from moonpool.catalog.tokens import definition_text  # noqa: PLC0415

    return _count(definition_text(tool))
