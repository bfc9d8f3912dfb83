"""How much of a catalog is shown unasked, and when definitions come at once; all of it bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog.builders import catalog_of, listing, published_manifest
from moonpool.catalog.catalog import Catalog
from moonpool.catalog.levels import GIVEN_TOKENS, Level, definitions_if_few, manifest_of
from moonpool.catalog.tokens import count_tokens
from moonpool.core.manifest import Manifest, ServerListing

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject


def few(catalog: Catalog) -> str:
    return definitions_if_few(catalog, lambda tool: catalog.definition(*tool.key))


def servers(count: int, about: str) -> list[ServerListing]:
    return [listing(f"server-{number:03}", {"name": "t"}, description=about) for number in range(count)]


@pytest.mark.req("H-052")
@pytest.mark.parametrize(
    ("count", "about", "level", "whole"),
    [
        (3, "Keeps books.", Level.LINES, True),
        (20, "Keeps books about very many things, and tells who has read which of them. More.", Level.NAMES, True),
        (2000, "Keeps books.", Level.NAMES, False),
    ],
)
def test_the_manifest_is_as_rich_as_fits(count: int, about: str, level: Level, whole: bool) -> None:
    shown = manifest_of(catalog_of(*servers(count, about)).servers(), 1_000)

    assert shown.level is level
    assert len(shown.text) <= 1_000
    assert ("more: a search finds them" not in shown.text) is whole
    assert ("Keeps books" in shown.text) is (level is Level.LINES)


def test_definitions_come_at_once_where_there_are_few() -> None:
    tools = [{"name": f"tool_{number}", "description": f"Does {number}."} for number in range(20)]
    text = few(catalog_of(listing("s", *tools)))

    assert all(f"servers.s.tool_{number}(" in text for number in range(20))
    assert count_tokens(text) <= GIVEN_TOKENS


@pytest.mark.parametrize("count", [0, 200, 5_000])
def test_they_do_not_where_there_are_none_or_many(count: int) -> None:
    text = "Does a thing that takes a good many words to say, as descriptions do." * 2
    tools = [{"name": f"tool_{number}", "description": text} for number in range(count)]

    assert few(catalog_of(listing("s", *tools))) == ""


def verbose(number: int) -> JsonObject:
    parameters = {f"p{place}": {"type": "string", "description": f"{number} words " * 20} for place in range(20)}
    return {"type": "object", "properties": parameters}


def test_nor_where_few_tools_have_much_to_say() -> None:
    tools = [
        {"name": f"tool_{number}", "description": f"{number} words " * 60, "inputSchema": verbose(number)}
        for number in range(10)
    ]

    assert few(catalog_of(listing("s", *tools))) == ""


def test_published_servers_alone_and_together() -> None:
    published = published_manifest()
    alone = {one.server_id: bool(few(Catalog(Manifest(servers=(one,))))) for one in published.servers}

    assert {name for name, shown in alone.items() if not shown} == {
        "filesystem", "github-archived", "kubernetes", "mongodb", "notion", "playwright", "redis",
    }  # fmt: skip
    assert few(Catalog(published)) == ""
