from __future__ import annotations

import pytest

from moonpool.catalog.text import terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("get_current_time", ["get", "current", "tim"], id="snake case"),
        pytest.param("getUserByID", ["get", "user", "id", "getuserbyid"], id="camel case keeps the whole too"),
        pytest.param("HTTPServer2", ["http", "server", "2", "httpserver2"], id="acronyms and digits"),
        pytest.param("list-repositories", ["list", "repository"], id="kebab case and plural"),
        pytest.param("the files of my user", ["fil", "user"], id="stop words go"),
        pytest.param("搜索关键词", ["搜索", "索关", "关键", "键词"], id="unspaced scripts give pairs"),
        pytest.param("Größe über café", ["größ", "über", "café"], id="other letters stay whole"),
        pytest.param("a" * 65, [], id="over-long words are not words"),
        pytest.param("\x00\ud800 \n", [], id="junk gives nothing"),
        pytest.param("", [], id="empty"),
    ],
)
def test_terms(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    "words", ["store stored storing stores", "merge merging merged", "query queries", "plan planned"]
)
def test_forms_of_a_word_meet(words: str) -> None:
    assert len({*terms(words)}) == 1
