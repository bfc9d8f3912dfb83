"""Texts and tool definitions in o200k tokens (H-077, H-083). The tokenizer is loaded on first use.

What a session's model was shown is counted by `moonpool.features.usage.token_accounting`.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

    from moonpool.core.manifest import ToolDefinition

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


def _pieces(text: str) -> Iterator[str]:
    """Cut `text` into pieces of about CHUNK_CHARS, before a space where there is one."""
    start = 0
    while len(text) - start > CHUNK_CHARS:
        end = text.rfind(" ", start + CHUNK_CHARS // 2, start + CHUNK_CHARS)
        end = end if end > start else start + CHUNK_CHARS
        yield text[start:end]
        start = end
    yield text[start:]
