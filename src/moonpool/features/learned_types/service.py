"""Learning from calls that worked: takes what the pipeline shows, works on it later, keeps little.

The pipeline calls `saw` before it gives a result to the code. That looks up a counter and appends to a queue; shapes
are inferred and arguments redacted in a worker thread, and written to disk at most every few seconds. The first
`ALL_OF_FIRST` results of a definition are looked at, then the 8th, 16th and so on up to `LOOKED_AT_MAX`; large results,
and whatever comes while the queue is full, teach nothing.

SECURITY: lessons belong to one principal and one server configuration (`_book`), so no caller sees what another's calls
taught. Tools labelled `private` teach no example; nor do calls of a session that has read private or untrusted data,
because their arguments may hold it. Arguments are redacted before they are kept; shapes hold types and member names
(`features.learned_types.model` says which).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from moonpool.core.json import digest_json
from moonpool.features.learned_types.model import EXAMPLES_MAX, LearnedType
from moonpool.pipeline.normalisation import result_data

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import ToolDefinition
    from moonpool.pipeline.call_observer import ObservedCall

_log = logging.getLogger(__name__)

RESULT_BYTES_MAX: Final = 128 * 1024
ARGUMENTS_BYTES_MAX: Final = 16 * 1024
WAITING_MAX: Final = 16
ALL_OF_FIRST: Final = 4
LOOKED_AT_MAX: Final = 64
COUNTED_MAX: Final = 5_000
PAUSE_S: Final = 2.0
_LAST_S: Final = 1.0


class LearnedTypeStorage(Protocol):
    """Keeps lessons between processes (`moonpool.features.learned_types.table`). Blocking."""

    def load(self, key: str) -> dict[str, LearnedType]: ...
    def save(self, key: str, news: Mapping[str, LearnedType]) -> bool: ...


class _SeenCall(NamedTuple):
    """One call that worked, as it waits to be looked at."""

    key: str
    call: ObservedCall
    has_arguments: bool  # others may not be kept


class LearnedTypes:
    """What this process's calls taught. Used on one event loop."""

    def __init__(
        self,
        keys: Mapping[str, str],
        storage: LearnedTypeStorage,
        *,
        redact: Callable[[JsonObject], JsonObject],
        examples: bool = True,
        enabled: bool = True,
    ) -> None:
        self._keys, self._storage, self._redact = dict(keys), storage, redact
        self._examples, self._enabled = examples, enabled
        self._counts: dict[tuple[str, str, str], int] = {}
        self._waiting: deque[_SeenCall] = deque()
        self._loaded: dict[str, dict[str, LearnedType]] = {}
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def know(self, server_id: str, key: str) -> None:
        """One more server, or another in place of one."""
        self._keys[server_id] = key

    def saw(self, call: ObservedCall) -> None:
        """One call worked. Returns at once; `private` arguments are not kept."""
        if not self._enabled or call.result_bytes > RESULT_BYTES_MAX or len(self._waiting) >= WAITING_MAX:
            return
        tool = call.tool
        counted = (call.principal, tool.server_id, tool.digest)
        count = self._counts.get(counted, 0) + 1
        if len(self._counts) >= COUNTED_MAX:
            self._counts.clear()
        self._counts[counted] = count
        if count > LOOKED_AT_MAX or (count > ALL_OF_FIRST and count & (count - 1)):
            return
        shown = self._examples and not call.private and call.arguments_bytes <= ARGUMENTS_BYTES_MAX
        key = self._key(call.principal, tool.server_id)
        if (tool.output_schema is not None and not shown) or key is None:
            return
        kept = call if shown else replace(call, arguments={})  # what is not kept does not wait in memory either
        self._waiting.append(_SeenCall(key, kept, has_arguments=shown))
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._learn())

    async def of(self, principal: str, tool: ToolDefinition) -> LearnedType | None:
        """What `principal`'s own calls of this definition taught."""
        key = self._key(principal, tool.server_id)
        if not self._enabled or key is None:
            return None
        if key not in self._loaded:
            loaded = await asyncio.to_thread(self._storage.load, key)
            self._loaded.setdefault(key, loaded)
        found = self._loaded[key].get(tool.digest)
        return found if self._examples or found is None else LearnedType(results=found.results, shape=found.shape)

    async def close(self) -> None:
        """Look at what waits and keep it; not for long."""
        self._closing.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_LAST_S)
            self._task.cancel()

    async def settled(self) -> None:
        """Return when everything seen so far has been looked at and kept."""
        self._closing.set()
        if self._task is not None:
            await asyncio.wait([self._task])
        self._closing.clear()

    async def _learn(self) -> None:
        try:
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
                await asyncio.to_thread(self._take, batch)
                if not self._closing.is_set():
                    try:
                        async with asyncio.timeout(PAUSE_S):  # what comes meanwhile is kept in one go
                            await self._closing.wait()
                    except TimeoutError:
                        pass
        except Exception as error:  # noqa: BLE001  a lesson less; no call may fail of it
            _log.error("calls teach nothing: %s", type(error).__name__)

    def _take(self, batch: list[_SeenCall]) -> None:
        changed: dict[str, dict[str, LearnedType]] = {}
        for seen in batch:
            tool, known = seen.call.tool, self._loaded.get(seen.key)
            if known is None:
                known = self._loaded.setdefault(seen.key, self._storage.load(seen.key))
            before = known.get(tool.digest, LearnedType())
            learned_type = self._looked_at(seen, before)
            if learned_type != before:
                known[tool.digest] = changed.setdefault(seen.key, {})[tool.digest] = learned_type
        for key, news in changed.items():
            self._storage.save(key, news)

    def _looked_at(self, seen: _SeenCall, learned_type: LearnedType) -> LearnedType:
        call = seen.call
        if seen.has_arguments and len(learned_type.examples) < EXAMPLES_MAX:
            learned_type = learned_type.with_example(self._redact(call.arguments))
        if call.tool.output_schema is not None or learned_type.results >= LOOKED_AT_MAX:
            return learned_type
        if call.data_from == "content":  # its shape says nothing
            return learned_type
        return learned_type.with_result(result_data(call.raw, call.data_from))

    def _key(self, principal: str, server_id: str) -> str | None:
        key = self._keys.get(server_id)
        return None if key is None else digest_json([principal, server_id, key])
