"""Vectors beside words. The fake here keeps the contract of `Similarity`; the real models are measured by the bench."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog.builders import catalog_of, listing
from moonpool.catalog.dense import DenseText, dense_texts
from moonpool.core.manifest import Manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.catalog.catalog import Catalog

WEATHER = listing("sky", {"name": "get_forecast", "description": "Weather of the next days"})
CLOCK = listing("clock", {"name": "now", "description": "Current time"}, {"name": "zone", "description": "Time zone"})
MEANING = {"weather": (1.0, 0.0), "time": (0.0, 1.0), "umbrella": (0.9, 0.1), "zone": (0.1, 0.9)}


@dataclass(frozen=True)
class SmallTable:
    """A table of four words; texts are sums of what they hold."""

    texts: tuple[str, ...]
    word_share: float = 0.4
    floor: float = 0.5
    bonus_share: float = 0.5

    def to_tools(self, query: str) -> Sequence[float]:
        asked = _vector(query)
        return [sum(one * other for one, other in zip(asked, _vector(text), strict=True)) for text in self.texts]


def _vector(text: str) -> tuple[float, ...]:
    found = [vector for word, vector in MEANING.items() if word in text.lower()]
    length = sum(sum(part) ** 2 for part in zip(*found, strict=True)) ** 0.5 or 1.0
    return tuple(sum(part) / length for part in zip(*found, strict=True)) or (0.0, 0.0)


def with_table(catalog: Catalog) -> Catalog:
    catalog.use_similarity(SmallTable(tuple(one.text for one in dense_texts(catalog.manifest))))
    return catalog


def names(catalog: Catalog, query: str) -> list[str]:
    return [hit.entry.tool_name for hit in catalog.search(query)]


def test_meaning_finds_what_shares_no_word_with_the_question() -> None:
    assert names(catalog_of(CLOCK, WEATHER), "umbrella") == []
    assert names(with_table(catalog_of(CLOCK, WEATHER)), "umbrella") == ["get_forecast"]


def test_words_still_count() -> None:
    assert names(with_table(catalog_of(CLOCK, WEATHER)), "time zone")[0] == "zone"


def test_a_question_that_nothing_is_like_finds_nothing() -> None:
    assert names(with_table(catalog_of(CLOCK, WEATHER)), "xylophone") == []


def test_the_order_of_servers_changes_nothing() -> None:
    one, other = with_table(catalog_of(CLOCK, WEATHER)), with_table(catalog_of(WEATHER, CLOCK))
    for query in ("time", "umbrella in this zone", "weather"):
        assert names(one, query) == names(other, query)


def test_a_filter_keeps_the_order() -> None:
    catalog = with_table(catalog_of(CLOCK, WEATHER))
    everywhere = [hit.entry.tool_name for hit in catalog.search("time zone weather") if hit.entry.server_id == "clock"]
    assert [hit.entry.tool_name for hit in catalog.search("time zone weather", server="clock")] == everywhere


def test_a_changed_manifest_goes_back_to_words_until_its_vectors_are_there() -> None:
    catalog = with_table(catalog_of(CLOCK, WEATHER))
    catalog.update(Manifest(servers=(CLOCK, WEATHER)))
    assert catalog.has_similarity
    catalog.update(Manifest(servers=(WEATHER,)))
    assert not catalog.has_similarity
    assert names(catalog, "umbrella") == []
    assert names(with_table(catalog), "umbrella") == ["get_forecast"]


def test_the_text_of_a_tool_names_its_server_and_splits_its_name() -> None:
    assert dense_texts(Manifest(servers=(WEATHER,))) == [
        DenseText("sky: get forecast", "sky: get forecast. Weather of the next days")
    ]
