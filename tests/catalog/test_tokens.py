"""The tokenizer counts right, and little of what there is is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog.builders import catalog_of, listing
from moonpool.catalog.render import hit_lines, manifest_lines
from moonpool.catalog.tokens import CHUNK_CHARS, count_tokens, definition_text

if TYPE_CHECKING:
    from moonpool.catalog.catalog import Catalog


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", 0, id="empty"),
        pytest.param("Hello, world!", 4, id="English"),
        pytest.param("hello <|endoftext|>", 8, id="special tokens are plain text"),
        pytest.param("def f(x):\n    return x", 7, id="code"),
        pytest.param("你好，世界", 3, id="Chinese"),
        pytest.param("😀", 1, id="emoji"),
        pytest.param("\ud800x", 2, id="a lone surrogate counts as a question mark"),
    ],
)
def test_known_counts(text: str, expected: int) -> None:
    assert count_tokens(text) == expected


def test_long_text_costs_what_its_pieces_cost() -> None:
    words = 5 * CHUNK_CHARS
    pieces = words * len("x y ") // (CHUNK_CHARS // 2)

    assert 0 <= count_tokens("x y " * words) - 2 * words <= pieces


def test_text_without_spaces_is_counted_too() -> None:
    assert count_tokens("a" * 3 * CHUNK_CHARS) > 0


def test_definition_is_counted_as_the_messages_api_takes_it() -> None:
    tool = listing("a", {"name": "t", "description": "D", "inputSchema": {"type": "object"}, "title": "T"}).tools[0]

    assert definition_text(tool) == '{"name":"t","description":"D","input_schema":{"type":"object"}}'


@pytest.mark.req("H-077")
def test_search_and_two_definitions_cost_a_fraction_of_all_definitions(published_catalog: Catalog) -> None:
    upfront = sum(count_tokens(definition_text(tool)) for tool in published_catalog.manifest.tools())
    hits = published_catalog.search(["read git log", "current time"], limit=5)
    read = [definition_text(published_catalog.find_path(hit.path)) for hit in hits[:2]]
    spent = sum(map(count_tokens, [manifest_lines(published_catalog.servers()), hit_lines(hits), *read]))

    assert len(read) == 2
    assert upfront > 50_000
    assert spent < 0.02 * upfront


def test_manifest_does_not_grow_with_tools() -> None:
    few, many = (
        catalog_of(listing("a", *({"name": f"tool{number}", "description": "x" * 500} for number in range(count))))
        for count in (2, 200)
    )

    assert len(manifest_lines(many.servers())) - len(manifest_lines(few.servers())) == 2
