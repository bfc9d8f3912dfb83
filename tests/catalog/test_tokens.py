"""The tokenizer counts right, the meter adds up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog.builders import catalog_of, listing
from moonpool.catalog.render import hit_lines, manifest_lines
from moonpool.catalog.tokens import CHUNK_CHARS, DefinitionCosts, TokenMeter, count_tokens, definition_text
from moonpool.core.manifest import Manifest

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


def test_a_definition_is_counted_once_while_it_stays_the_same() -> None:
    asked: list[str] = []
    costs = DefinitionCosts(count=lambda text: asked.append(text) or len(text))
    before, same, after = (
        listing(server, {"name": "t", "description": text}).tools[0]
        for server, text in (("a", "old"), ("b", "old"), ("a", "new"))
    )

    assert costs.upfront([before, same, before]) == 3 * costs.of(before)
    assert len(asked) == 1
    costs.of(after)
    assert len(asked) == 2


def test_meter_compares_spent_with_upfront() -> None:
    manifest = Manifest(servers=(listing("a", {"name": "t", "description": "x" * 100}),))
    meter = TokenMeter(manifest, costs=DefinitionCosts(count=lambda _text: 1_000), count=len)
    meter.spend("search", "12345")
    meter.spend("search", "12345")
    meter.spend("definition", "x" * 90)

    assert meter.report().to_json() == {
        "upfront": 1_000, "spent": 100, "saved": 900, "reduction": 0.9, "by_kind": {"search": 10, "definition": 90},
    }  # fmt: skip


def test_meter_does_not_flatter() -> None:
    meter = TokenMeter(Manifest(), count=len)
    meter.spend("search", "12345")

    assert (meter.report().saved, meter.report().reduction) == (-5, 0.0)


@pytest.mark.req("H-077")
def test_search_and_two_definitions_cost_a_fraction_of_all_definitions(published_catalog: Catalog) -> None:
    meter = TokenMeter(published_catalog.manifest)
    meter.spend("manifest", manifest_lines(published_catalog.servers()))
    hits = published_catalog.search(["read git log", "current time"], limit=5)
    meter.spend("search", hit_lines(hits))
    for hit in hits[:2]:
        meter.spend("definition", definition_text(published_catalog.find_path(hit.path)))

    assert [kind for kind, _ in meter.report().by_kind] == ["definition", "manifest", "search"]
    assert meter.report().upfront > 50_000
    assert meter.report().reduction > 0.98


def test_manifest_does_not_grow_with_tools() -> None:
    few, many = (
        catalog_of(listing("a", *({"name": f"tool{number}", "description": "x" * 500} for number in range(count))))
        for count in (2, 200)
    )

    assert len(manifest_lines(many.servers())) - len(manifest_lines(few.servers())) == 2
