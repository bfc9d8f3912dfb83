"""Completions of a moment ago: equal requests, as typing makes them, are answered once (D-023).

What was answered is kept for some seconds. Of equal requests at the same time the first is sent and the others wait for
its answer; if it fails or its caller leaves, the next is sent. One per connection, so nothing outlives a login.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from moonpool.core.json import digest_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.core.json import JsonObject

KEPT_S: Final = 5.0
KEPT_COUNT_MAX: Final = 64
_VALUE_COUNT_MAX: Final = 100
"""The protocol's own bound; a longer answer is given out and not kept."""


@dataclass(slots=True)
class _Kept:
    turn: anyio.Lock = field(default_factory=anyio.Lock)
    answer: JsonObject | None = None
    until: float = 0.0


class RecentCompletions:
    """Answers by the digest of what was asked."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def get(self, params: JsonObject, ask: Callable[[], Awaitable[JsonObject]]) -> JsonObject:
        """The answer to `params`, by `ask` if there is none of just now. Raises what `ask` raises."""
        try:
            kept = self._entry(digest_json(params))
        except ValueError:  # no JSON; whoever sends it says so
            return await ask()
        async with kept.turn:
            if kept.answer is None or anyio.current_time() >= kept.until:
                kept.answer = None
                answer = await ask()
                values = answer.get("values")
                if not isinstance(values, list) or len(values) > _VALUE_COUNT_MAX:
                    return answer
                kept.answer, kept.until = answer, anyio.current_time() + KEPT_S
            return copy.deepcopy(kept.answer)

    def _entry(self, key: str) -> _Kept:
        kept = self._kept.setdefault(key, _Kept())
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT_COUNT_MAX:
            self._kept.popitem(last=False)
        return kept
