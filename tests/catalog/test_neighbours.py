"""Near words: they find what shares no word, and never beat a word that was said."""

from __future__ import annotations

from importlib import resources

from catalog.builders import catalog_of, listing
from moonpool.catalog.synonyms import NEIGHBOURS_MAX, QUESTION_TERMS_MAX, neighbours, synonyms
from moonpool.catalog.text import terms

WEATHER = {"name": "get_weather", "description": "Weather of a city."}
RAINFALL = {"name": "get_rainfall", "description": "Rainfall of a city."}
STOCKS = {"name": "get_quote", "description": "Stock quotes."}
LINES = [
    line.split()
    for line in resources.files("moonpool.catalog").joinpath("neighbours.txt").read_text(encoding="utf-8").splitlines()
]


def names(question: str, *tools: dict[str, str]) -> list[str]:
    catalog = catalog_of(*(listing(f"s{place}", tool) for place, tool in enumerate(tools)))
    return [hit.entry.tool_name for hit in catalog.search(question)]


def test_a_near_word_finds_a_tool_that_shares_no_word() -> None:
    assert "weather" not in synonyms("rainfall")
    assert names("rainfall", WEATHER, STOCKS) == ["get_weather"]


def test_the_word_that_was_said_comes_first() -> None:
    assert names("rainfall", WEATHER, RAINFALL) == ["get_rainfall", "get_weather"]


def test_a_word_near_nothing_finds_nothing() -> None:
    assert names("xylograph", WEATHER, STOCKS) == []


def test_a_long_question_goes_by_its_own_words() -> None:
    fillers = " ".join(f"zq{letter}" for letter in "abcdefghijkl"[: QUESTION_TERMS_MAX - 1])

    assert names(f"rainfall {fillers}", WEATHER) == ["get_weather"]
    assert names(f"rainfall zqz {fillers}", WEATHER) == []


def test_only_the_nearest_words_that_some_tool_uses_count() -> None:
    near = neighbours("weather")
    assert len(near) > NEIGHBOURS_MAX + 1
    tools = [{"name": f"t{word}", "description": word} for word in near[1:]]  # the nearest is not in this catalog

    assert sorted(names("weather", *tools)) == sorted(f"t{word}" for word in near[1 : NEIGHBOURS_MAX + 1])


def test_near_words_of_a_removed_server_are_forgotten() -> None:
    kept, gone = listing("kept", WEATHER), listing("gone", {"name": "climates", "description": "climate rain snow"})
    changed = catalog_of(kept, gone)
    changed.update(catalog_of(kept).manifest)

    assert changed.search("rainfall") == catalog_of(kept).search("rainfall")


def test_the_table_holds_plain_words_each_once() -> None:
    words = [line[0] for line in LINES]

    assert words == sorted(set(words))
    assert [word for word in words if terms(word) != terms(word)[:1] or not word.isascii()] == []
    assert len({terms(word)[0] for word in words}) == len(words)


def test_the_table_names_its_own_words_only() -> None:
    words = {line[0] for line in LINES}

    assert [line for line in LINES if not words.issuperset(line) or len(set(line)) < len(line) or len(line) > 9] == []
