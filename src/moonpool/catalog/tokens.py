"""Context usage of tool definitions, counted in o200k tokens (H-077, H-083).

`upfront` is what a client would send without a catalog: every definition as the Messages API takes it (`name`,
`description`, `input_schema`). `spent` is what the catalog really returned. The tokenizer is loaded on first use.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import Manifest, ToolDefinition

CHUNK_CHARS: Final = 50_000
CACHED_TOOLS_MAX: Final = 50_000


class _Tokenizer(Protocol):
    def count(self, text: str, /) -> int: ...


@cache
def _o200k() -> _Tokenizer:
    openai: Any = import_module("rs_bpe.bpe").openai  # untyped; loading the ranks takes 0.1 s
    return cast("_Tokenizer", openai.o200k_base())


def count_tokens(text: str) -> int:
    """Return the o200k tokens of `text`. Long texts are counted in pieces, which may add a token per piece."""
    clean = text.encode("utf-8", "replace").decode()  # lone surrogates have no tokens
    return sum(_o200k().count(piece) for piece in _pieces(clean))


def definition_text(tool: ToolDefinition) -> str:
    """The definition that a client without a catalog sends to the model."""
    shown = {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


class DefinitionCosts:
    """Tokens of full definitions, each counted once until it changes."""

    def __init__(self, count: Callable[[str], int] = count_tokens) -> None:
        self._count = count
        self._by_digest: dict[str, int] = {}

    def of(self, tool: ToolDefinition) -> int:
        cost = self._by_digest.get(tool.digest)
        if cost is None:
            if len(self._by_digest) >= CACHED_TOOLS_MAX:
                self._by_digest.clear()
            cost = self._by_digest[tool.digest] = self._count(definition_text(tool))
        return cost

    def upfront(self, tools: Iterable[ToolDefinition]) -> int:
        return sum(self.of(tool) for tool in tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenReport:
    """Context usage of one session so far."""

    upfront: int  # all definitions, sent once
    spent: int  # what the model was shown instead
    by_kind: tuple[tuple[str, int], ...] = ()  # "manifest", "search", "definition"...

    @property
    def saved(self) -> int:
        """Negative if the catalog cost more than it saved."""
        return self.upfront - self.spent

    @property
    def reduction(self) -> float:
        """Share of the upfront tokens that was not spent; 0 if there is nothing to save."""
        return self.saved / self.upfront if self.upfront else 0.0

    def to_json(self) -> JsonObject:
        return {
            "upfront": self.upfront,
            "spent": self.spent,
            "saved": self.saved,
            "reduction": round(self.reduction, 4),
            "by_kind": dict(self.by_kind),
        }


@dataclass(slots=True)
class TokenMeter:
    """Sums up what one session's model was shown."""

    manifest: Manifest
    costs: DefinitionCosts = field(default_factory=DefinitionCosts)
    count: Callable[[str], int] = count_tokens
    _spent: dict[str, int] = field(init=False, default_factory=dict[str, int])

    def spend(self, kind: str, text: str) -> int:
        """Count `text` as shown to the model; return its tokens."""
        tokens = self.count(text)
        self._spent[kind] = self._spent.get(kind, 0) + tokens
        return tokens

    def report(self) -> TokenReport:
        return TokenReport(
            upfront=self.costs.upfront(self.manifest.tools()),
            spent=sum(self._spent.values()),
            by_kind=tuple(sorted(self._spent.items())),
        )


def _pieces(text: str) -> Iterator[str]:
    """Cut `text` into pieces of about CHUNK_CHARS, before a space where there is one."""
    start = 0
    while len(text) - start > CHUNK_CHARS:
        end = text.rfind(" ", start + CHUNK_CHARS // 2, start + CHUNK_CHARS)
        end = end if end > start else start + CHUNK_CHARS
        yield text[start:end]
        start = end
    yield text[start:]
