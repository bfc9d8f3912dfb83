"""Entries and definitions."""

from __future__ import annotations

import pytest

from catalog.builders import catalog_of, listing
from moonpool.catalog.catalog import Catalog
from moonpool.catalog.errors import CatalogQueryError, NotInCatalogError
from moonpool.core.manifest import Manifest
from tables import every_row

TIME = listing("my-time", {"name": "get-current.time", "title": "Clock"}, {"name": "convert_time"})


@pytest.mark.req("H-046")
def test_entries_hold_names_and_texts_only(published_catalog: Catalog, published: Manifest) -> None:
    entries = [entry.to_json() for entry in published_catalog.list()]

    assert len(entries) == len(list(published.tools()))
    assert set().union(*entries) == {"serverId", "toolName", "title", "description"}
    assert all({"serverId", "toolName"} <= entry.keys() for entry in entries)


@pytest.mark.req("H-046")
def test_detail_name_leaves_texts_out(published_catalog: Catalog) -> None:
    shown = [entry.to_json() for entry in published_catalog.list("time", detail="name")]
    found = published_catalog.search("time zone", server="time", detail="name", limit=1)

    assert shown[0] == {"serverId": "time", "toolName": "get_current_time"}
    assert found[0].entry.description == ""


@pytest.mark.req("H-047")
def test_json_definition_equals_the_upstreams_own(published_catalog: Catalog, published: Manifest) -> None:
    for tool in published.tools():
        assert published_catalog.definition(tool.server_id, tool.name, as_="json") == tool.raw


def test_stub_is_the_default_and_shows_the_path(published_catalog: Catalog, published: Manifest) -> None:
    for tool in published.tools():
        assert f"{published_catalog.path(tool)}(" in published_catalog.definition(tool.server_id, tool.name)


@pytest.mark.parametrize(
    ("server", "name"),
    [
        pytest.param("my-time", "get-current.time", id="protocol names"),
        pytest.param("my_time", "get_current_time", id="names in code"),
        pytest.param("servers.my_time", "get-current.time", id="mixed"),
    ],
)
def test_a_tool_goes_by_its_own_names_and_by_those_in_code(server: str, name: str) -> None:
    assert catalog_of(TIME).find(server, name).name == "get-current.time"


@pytest.mark.parametrize(
    "path", ["servers.my_time.get_current_time", "my_time.get_current_time", "my-time.get-current.time"]
)
def test_a_path_finds_its_tool(path: str) -> None:
    assert catalog_of(TIME).find_path(path).name == "get-current.time"


def test_names_with_dots_are_read_in_every_way() -> None:
    catalog = catalog_of(listing("a.b", {"name": "c.d"}), listing("a", {"name": "x"}))

    assert catalog.find_path("a.b.c.d").key == ("a.b", "c.d")


def test_every_hit_leads_to_its_definition(published_catalog: Catalog, published: Manifest) -> None:
    for tool in published.tools():
        assert published_catalog.find_path(published_catalog.path(tool)) is tool


@pytest.mark.parametrize(
    ("path", "message"),
    [
        pytest.param(
            "my-time.convert_tme",
            "server 'my-time' has no tool 'convert_tme'; near names: convert_time",
            id="near tool",
        ),
        pytest.param(
            "my-time.zzz", "server 'my-time' has no tool 'zzz'; search for what it should do", id="nothing near"
        ),
        pytest.param("mytime.convert_time", "there is no server 'mytime'; near names: my-time", id="near server"),
        pytest.param("zzz.a", "there is no server 'zzz'; known servers: my-time", id="unknown server"),
        pytest.param("x\x1b[2J\n.a", "there is no server 'x'; known servers: my-time", id="hostile name"),
        pytest.param(
            "clock.convert_time",
            "there is no server 'clock'; near names: servers.my_time.convert_time",
            id="another server's tool",
        ),
        pytest.param(
            "convert_tme", "no tool is called 'convert_tme'; near names: servers.my_time.convert_time", id="bare name"
        ),
        pytest.param("zzz", "no tool is called 'zzz'; search for what it should do", id="nothing like it"),
    ],
)
def test_unknown_names_are_answered_with_near_ones(path: str, message: str) -> None:
    with pytest.raises(NotInCatalogError) as caught:
        catalog_of(TIME).find_path(path)

    assert str(caught.value) == message


@every_row(
    ("path", "message"),
    [
        ("my-time", "'my-time' is a server: write a tool as server.tool"),
        ("", "'' names no tool: write a tool as server.tool"),
        ("." * 100_000, "a path of 100000 characters names no tool: write it as server.tool"),
    ],
)
def test_a_path_without_a_tool_is_refused(path: str, message: str) -> None:
    with pytest.raises(CatalogQueryError) as caught:
        catalog_of(TIME).find_path(path)

    assert str(caught.value) == message


def test_a_bare_name_is_the_only_tool_of_that_name_or_one_of_several() -> None:
    catalog = catalog_of(TIME, listing("other", {"name": "ping"}), listing("more", {"name": "ping"}))

    assert catalog.find_path("convert_time").key == ("my-time", "convert_time")
    with pytest.raises(
        NotInCatalogError, match=r"several tools are called 'ping': servers\.other\.ping, servers\.more"
    ):
        catalog.find_path("ping")


def test_a_tool_of_another_server_is_near_where_its_own_has_none() -> None:
    catalog = catalog_of(TIME, listing("git", {"name": "git_log"}))

    with pytest.raises(
        NotInCatalogError, match=r"server 'my-time' has no tool 'git_lgo'; near names: servers\.git\.git_log"
    ):
        catalog.find_path("my-time.git_lgo")


def test_a_catalog_that_follows_answers_like_a_new_one_and_leaves_the_old_as_it_was(published: Manifest) -> None:
    old, changed = Catalog(published), Manifest(servers=(*published.servers[2:], listing("new", {"name": "list_it"})))
    asked = ["list files", "commit", "key of a database"]
    before = old.search(asked)
    followed = old.followed(changed)

    assert followed.search(asked) == Catalog(changed).search(asked)
    assert followed.list() == Catalog(changed).list()
    assert old.search(asked) == before


def test_an_empty_catalog_answers() -> None:
    catalog = catalog_of()

    assert (catalog.list(), catalog.servers(), catalog.search("anything")) == ((), (), ())
