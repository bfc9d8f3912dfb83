"""The index after changes, and its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.builders import listing, nested
from moonpool.catalog.documents import SCHEMA_DEPTH_MAX, tool_document
from moonpool.catalog.index import Index

if TYPE_CHECKING:
    from moonpool.core.manifest import Manifest, ServerListing


def put(index: Index, server: ServerListing) -> None:
    index.replace(server.server_id, [tool_document(tool, server) for tool in server.tools])


def scores(index: Index, *words: str) -> dict[tuple[str, str], float]:
    (found,) = index.scores([dict.fromkeys(words, 1.0)])
    return {index.at(slot).key: score for slot, score in enumerate(found) if score}


def test_changed_index_answers_like_a_new_one(published: Manifest) -> None:
    changed, fresh = Index(), Index()
    for server in published.servers:
        put(changed, server)
    for server in published.servers[::2]:
        changed.replace(server.server_id, ())
    for server in published.servers[1::2]:
        put(changed, server)
    for server in reversed(published.servers[::2]):
        put(changed, server)
    for server in published.servers:
        put(fresh, server)

    assert len(changed) == len(fresh)
    for word in ("list", "fil", "commit", "databas", "key", "nosuchword"):
        assert scores(changed, word) == scores(fresh, word)


def test_removed_server_leaves_nothing(published: Manifest) -> None:
    index = Index()
    for server in published.servers:
        put(index, server)
    for server in published.servers:
        index.replace(server.server_id, ())

    assert len(index) == 0
    assert scores(index, "list", "fil") == {}


def test_slots_are_used_again() -> None:
    index, server = Index(), listing("a", {"name": "one"}, {"name": "two"})
    for _ in range(5):
        put(index, server)

    assert index.slot_count == 2


def test_nested_parameters_are_found_to_a_depth() -> None:
    index = Index()
    put(index, listing("a", {"name": "t", "inputSchema": nested("leaf", depth=SCHEMA_DEPTH_MAX)}))
    put(index, listing("b", {"name": "t", "inputSchema": nested("leaf", depth=SCHEMA_DEPTH_MAX + 1)}))

    assert set(scores(index, "leaf")) == {("a", "t")}


def test_nonsense_in_a_definition_does_not_hide_the_tool() -> None:
    index = Index()
    for number, schema in enumerate((True, None, [], {"properties": []}, {"properties": {"x": 3, "y": {"anyOf": 1}}})):
        put(index, listing(f"s{number}", {"name": "fetch_page", "description": 5, "inputSchema": schema}))

    assert len(scores(index, "fetch")) == 5


def test_server_texts_are_searchable() -> None:
    index = Index()
    put(
        index,
        listing("a", {"name": "go"}, title="Quokka Suite", description="Tracks numbats", instructions="Ask bilbies"),
    )

    assert all(scores(index, word) for word in ("quokka", "numbat", "bilby"))
