"""Tool calls of one execution that gave no data: how many, and the first few, for the envelope's `failed_calls`.

Counted on the host, where each call is answered, so that code cannot leave one out: it stands there also where code
never looked at the result, caught the error, or ended before the answer. That changes neither `ok` nor the exit code.

SECURITY: names of tools are the code's, messages hold what servers said: `to_json` cuts and redacts both. Of a call
that the guest says it refused itself all words are the sandbox's; it takes no place from one that the host knows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from moonpool.core.phrases import clip, printable, storable

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.core.calls import CallError
    from moonpool.core.json import JsonObject

SHOWN_MAX: Final = 5
_NAME_CHARS_MAX: Final = 120
_SENTENCE_CHARS_MAX: Final = 200
_KEPT_CHARS_MAX: Final = 2000
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z])|\n")


class FailedCalls:
    """The account of one execution."""

    def __init__(self) -> None:
        self.count = 0
        self._first: list[tuple[str, str, str]] = []  # tool, type of error, message
        self._claimed: list[tuple[str, str, str]] = []  # the same of calls that never left the sandbox

    def note(self, tool: str, error: CallError, *, claimed: bool = False) -> None:
        """A call of `tool` (`server.name`) failed; `claimed`: the guest says so."""
        self.count += 1
        kept = self._claimed if claimed else self._first
        if len(kept) < SHOWN_MAX:
            kept.append((tool, str(error.type), error.message[:_KEPT_CHARS_MAX]))

    def to_json(self, redact: Callable[[str], str]) -> JsonObject:
        """`{"count", "first": [{"tool", "type", "message"}]}`; a message is one sentence."""
        return {
            "count": self.count,
            "first": [
                {
                    "tool": clip(_shown(redact(tool)), _NAME_CHARS_MAX),
                    "type": kind,
                    "message": clip(_sentence(_shown(redact(message))), _SENTENCE_CHARS_MAX),
                }
                for tool, kind, message in (*self._first, *self._claimed)[:SHOWN_MAX]
            ],
        }


def _shown(text: str) -> str:
    return printable(storable(text))


def _sentence(text: str) -> str:
    return _SENTENCE_END.split(text.strip(), maxsplit=1)[0]
