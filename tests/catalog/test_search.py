"""Order, turns, namesakes, filters and bad questions."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from catalog.builders import catalog_of, listing
from moonpool.catalog.documents import tool_document
from moonpool.catalog.errors import CatalogQueryError, NotInCatalogError
from moonpool.catalog.index import Index
from moonpool.catalog.questions import LIMIT_MAX, QUERIES_MAX, QUERY_CHARS_MAX
from moonpool.catalog.search import _WordScores, rank  # pyright: ignore[reportPrivateUsage]

if TYPE_CHECKING:
    from moonpool.catalog.catalog import Catalog
    from moonpool.core.manifest import Manifest

WEATHER = {"name": "get_forecast", "description": "Weather forecast for a city."}
MAIL = {"name": "send_mail", "description": "Send an email message."}
ISSUE = {"name": "create_issue", "description": "Open an issue in a repository."}


def paths(catalog: Catalog, queries: str | list[str], **options: Any) -> list[str]:
    return [hit.path for hit in catalog.search(queries, **options)]


def test_same_question_same_answer_whatever_the_order_of_servers(published: Manifest) -> None:
    servers = list(published.servers)
    expected = catalog_of(*servers).search(["list files", "merge request"], limit=20)
    shuffled = servers[1::2] + servers[::-2]

    assert catalog_of(*shuffled).search(["list files", "merge request"], limit=20) == expected


def test_equal_tools_are_ordered_by_server() -> None:
    servers = [listing(name, {"name": f"open_{name}", "description": "Open it."}) for name in ("c", "a", "b")]

    assert paths(catalog_of(*servers), "open") == ["servers.a.open_a", "servers.b.open_b", "servers.c.open_c"]


def test_questions_are_answered_in_turn() -> None:
    catalog = catalog_of(
        listing("mail", MAIL, {"name": "read_mail", "description": "Read an email message."}),
        listing("weather", WEATHER, {"name": "get_alerts", "description": "Weather alerts."}),
    )
    hits = catalog.search(["weather forecast", "send email"], limit=2)

    assert [(hit.entry.tool_name, hit.query_index) for hit in hits] == [
        ("get_forecast", 0),
        ("send_mail", 1),
        ("get_alerts", 0),
        ("read_mail", 1),
    ]


def test_a_tool_that_answers_two_questions_is_shown_once() -> None:
    assert paths(catalog_of(listing("w", WEATHER)), ["weather", "forecast"]) == ["servers.w.get_forecast"]


def test_namesakes_on_other_servers_fold_into_one_hit() -> None:
    spelt_otherwise = {"name": "create-issue", "description": "Open an issue."}
    hits = catalog_of(listing("gitlab", ISSUE), listing("github", ISSUE), listing("jira", spelt_otherwise)).search(
        "create an issue on github"
    )

    assert [hit.path for hit in hits] == ["servers.github.create_issue"]
    assert sorted(hits[0].also) == ["servers.gitlab.create_issue", "servers.jira.create_issue"]


def test_namesakes_on_one_server_stay_apart() -> None:
    hits = catalog_of(listing("a", {"name": "get-x"}, {"name": "get_x"}, {"name": "getX"})).search("get x")

    assert {hit.entry.tool_name for hit in hits} == {"get-x", "get_x", "getX"}


def test_limit_counts_names_even_when_hundreds_share_one() -> None:
    many = [listing(f"s{number}", {"name": "search", "description": "Search."}) for number in range(400)]
    catalog = catalog_of(
        *many, listing("other", {"name": "find_and_search_documents", "description": "Search a lot of documents."})
    )

    assert len(catalog.search("search", limit=2)) == 2


@pytest.mark.parametrize("server", ["git-hub", "git_hub", "servers.git_hub", ["git-hub"]])
def test_server_filter_takes_every_name_of_a_server(server: str | list[str]) -> None:
    catalog = catalog_of(listing("git-hub", ISSUE), listing("jira", ISSUE))

    assert [(hit.path, hit.also) for hit in catalog.search("issue", server=server)] == [
        ("servers.git_hub.create_issue", ())
    ]


def test_pattern_narrows_but_does_not_rank() -> None:
    catalog = catalog_of(listing("w", WEATHER, {"name": "set_forecast", "description": "Weather forecast to store."}))

    assert paths(catalog, "weather forecast", pattern=r"^W\.SET_") == ["servers.w.set_forecast"]


@pytest.mark.parametrize(
    "pattern", ["^set_(forecast|rain)$", r"^w\.set_forecast$", r"^servers\.w\.set_forecast$", r"to store\.$"]
)
def test_a_pattern_may_name_the_ends_of_a_name_a_path_or_a_description(pattern: str) -> None:
    catalog = catalog_of(listing("w", WEATHER, {"name": "set_forecast", "description": "Weather forecast to store."}))

    assert paths(catalog, "weather forecast", pattern=pattern) == ["servers.w.set_forecast"]


def test_every_process_answers_the_same() -> None:
    code = """
from catalog.builders import published_manifest
from moonpool.catalog.catalog import Catalog
asked = ["open issues of a repository", "Read the file. Then store its rows."]
hits = Catalog(published_manifest()).search(asked, limit=20)
print([(hit.path, hit.score, hit.also) for hit in hits])
"""
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1
    assert b"servers." in said.pop()


def test_words_that_nobody_uses_find_nothing(published_catalog: Catalog) -> None:
    assert published_catalog.search("zyxw the of") == ()


@pytest.mark.parametrize(
    ("queries", "options", "words"),
    [
        pytest.param("", {}, "needs words", id="empty query"),
        pytest.param([], {}, "needs words", id="no query"),
        pytest.param(["ok", " \n"], {}, "needs words", id="one blank among several"),
        pytest.param(["q"] * (QUERIES_MAX + 1), {}, f"at most {QUERIES_MAX}", id="too many"),
        pytest.param("q" * (QUERY_CHARS_MAX + 1), {}, f"at most {QUERY_CHARS_MAX}", id="too long"),
        pytest.param("q", {"limit": 0}, f"1 to {LIMIT_MAX}", id="limit 0"),
        pytest.param("q", {"limit": LIMIT_MAX + 1}, f"1 to {LIMIT_MAX}", id="limit too high"),
        pytest.param("q", {"pattern": "("}, "not a regular expression", id="bad pattern"),
        pytest.param("q", {"pattern": "(?=a)"}, "not a regular expression", id="pattern RE2 has not"),
        pytest.param("q", {"pattern": "\ud800"}, "not a regular expression", id="pattern that is no text"),
        pytest.param("q", {"pattern": "a" * 501}, "at most 500", id="pattern too long"),
    ],
)
def test_bad_question_gets_one_clear_sentence(queries: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(CatalogQueryError, match=words) as caught:
        catalog_of(listing("w", WEATHER)).search(queries, **options)

    assert "\n" not in str(caught.value)


def test_unknown_server_names_the_near_ones() -> None:
    with pytest.raises(NotInCatalogError, match="there is no server 'wether'; near names: weather"):
        catalog_of(listing("weather", WEATHER), listing("mail", MAIL)).search("rain", server="wether")


def test_update_reads_changed_servers_only_and_answers_like_new(published: Manifest) -> None:
    catalog = catalog_of(*published.servers)
    kept = [server for server in published.servers if server.server_id not in {"git", "redis"}]
    changed = replace(published, servers=(*kept, listing("git", WEATHER), listing("new", MAIL)))

    assert catalog.update(changed) == ("git", "new", "redis")
    assert catalog.update(changed) == ()
    for question in ("weather forecast", "sorted set", "commit log", "send email"):
        assert catalog.search(question) == catalog_of(*changed.servers).search(question)


def test_eight_thousand_tools_build_and_answer() -> None:
    verbs, nouns = ("get", "list", "create", "delete"), [f"thing{number}" for number in range(100)]
    servers = [
        listing(f"server{number}", *({"name": f"{verb}_{noun}_{number}"} for verb in verbs for noun in nouns))
        for number in range(20)
    ]
    catalog = catalog_of(*servers)

    assert len(catalog.list()) == 8_000
    assert paths(catalog, "delete thing42 server7", limit=1) == ["servers.server7.delete_thing42_7"]


def test_a_long_question_is_ranked_as_if_every_tool_were_weighed_by_every_sentence(
    published: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = (
        "We keep notes about customers in files and a database. Find the newest file and read it! "
        "Which key was set last? Then open an issue with the list of commits; tell the team about the merge request."
    )
    index = Index()
    for server in published.servers:
        index.replace(server.server_id, [tool_document(tool, server) for tool in server.tools])
    found = {}
    monkeypatch.setattr("moonpool.catalog.search.CANDIDATES", 20)
    for name, contenders in (("some", _WordScores.contenders), ("all", lambda _words, slots: slots)):
        monkeypatch.setattr(_WordScores, "contenders", contenders)
        found[name] = rank(index, question, limit=10)

    assert len(found["some"]) == 10
    assert found["some"] == found["all"]


def test_rarity_follows_the_tools(published: Manifest) -> None:
    changed = catalog_of(*published.servers[:3])
    changed.search("list files")
    changed.update(replace(published))

    assert changed.search("list files") == catalog_of(*published.servers).search("list files")
