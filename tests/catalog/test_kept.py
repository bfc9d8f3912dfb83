"""Saved actions and skills in the catalog: found and read like tools, told apart by their paths."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from catalog.builders import listing, published_manifest
from moonpool.catalog.catalog import Catalog
from moonpool.catalog.errors import NotInCatalogError
from moonpool.catalog.filters import only_tools
from moonpool.catalog.render import hit_line
from moonpool.core.manifest import Manifest
from moonpool.features.library.model.actions import read_action
from moonpool.features.library.model.bounds import ACTION_FILE
from moonpool.features.library.model.entries import Library, LibraryEntry, LibrarySource

CODE = '''
async def run(repo: str, limit: int = 10) -> list[str]:
    """{about}

    Args:
        repo: owner and name
    """
    return IMPLEMENTATION
'''
TOOL: dict[str, Any] = {
    "name": "top_commits",
    "description": "List the newest commits of a repository",
    "inputSchema": {
        "type": "object",
        "properties": {"repo": {"type": "string", "description": "owner and name"}, "limit": {"type": "integer"}},
    },
}


def action(name: str = "github.top_commits", about: str = "List the newest commits of a repository") -> LibraryEntry:
    code = CODE.format(about=about).encode()
    return read_action(LibrarySource(kind="action", name=name, files={ACTION_FILE: code}))


def skill(name: str = "pdf-forms", about: str = "Fill in PDF forms") -> LibraryEntry:
    files = {f"{name}/SKILL.md": b"# PDF forms\nOpen the form first."}
    body = "# PDF forms\nOpen the form first."
    return LibraryEntry(kind="skill", name=name, description=about, definition=body, files=files, digest="sha256:0")


def catalog_of(*parts: Any) -> Catalog:
    entries = tuple(part for part in parts if isinstance(part, LibraryEntry))
    servers = tuple(part for part in parts if not isinstance(part, LibraryEntry))
    return Catalog(Manifest(servers=servers, library=Library(entries=entries)))


def lines(catalog: Catalog, query: str, **filters: Any) -> list[str]:
    return [hit_line(hit) for hit in catalog.search(query, **filters)]


@pytest.mark.req("I-103")
def test_entries_are_found_by_words_and_say_what_they_are() -> None:
    catalog = catalog_of(listing("time", {"name": "now", "description": "Get the time"}), action(), skill())
    assert lines(catalog, "newest commits repository") == [
        "actions.github.top_commits — action: List the newest commits of a repository"
    ]
    assert lines(catalog, "fill pdf form") == ["skills.pdf-forms — skill: Fill in PDF forms"]
    [hit] = catalog.search("newest commits")
    assert hit.to_json() == {
        "serverId": "actions", "toolName": "github.top_commits", "kind": "action",
        "description": "List the newest commits of a repository", "path": "actions.github.top_commits",
    }  # fmt: skip


@pytest.mark.req("I-103")
def test_no_search_and_no_definition_shows_or_knows_the_implementation() -> None:
    catalog = catalog_of(action(), skill())
    assert lines(catalog, "implementation") == []
    entry = catalog.find_kept("actions.github.top_commits")
    assert entry is not None
    for form in ("stub", "typescript", "json"):
        assert "IMPLEMENTATION" not in str(catalog.kept_definition(entry, form))
    stub = str(catalog.kept_definition(entry))
    assert stub.startswith("from actions.github.top_commits import run\n")
    assert "async def run(repo: str, limit: int = 10) -> list[str]:" in stub
    whole = catalog.kept_definition(entry, "json")
    assert isinstance(whole, dict)
    assert set(whole) == {"kind", "name", "path", "description", "parameters", "digest"}


@pytest.mark.req("I-099")
@pytest.mark.parametrize("query", ["newest commits repository", "github top commits", "repo limit"])
def test_an_equal_match_ranks_the_action_before_the_tool(query: str) -> None:
    for server in (listing("github", TOOL), listing("github", TOOL, {**TOOL, "name": "other"})):
        found = [hit.path for hit in catalog_of(server, action()).search(query)]
        assert found[0] == "actions.github.top_commits"
        assert "servers.github.top_commits" in found


def test_an_action_has_no_namesakes() -> None:
    catalog = catalog_of(listing("a", {**TOOL, "name": "github_top_commits"}), listing("b", TOOL), action())
    hits = catalog.search("top commits")
    assert all("actions" not in " ".join(hit.also) for hit in hits)
    assert not next(hit for hit in hits if hit.path.startswith("actions")).also


def test_filters_select_them() -> None:
    catalog = catalog_of(listing("github", TOOL), action(), skill(about="Commits of a repository in PDF forms"))
    query = "commits repository"
    paths = {path.split(".")[0] for path in lines(catalog, query)}
    assert paths == {"servers", "actions", "skills"}
    for name in ("actions", "skills"):
        assert {line.split(".")[0] for line in lines(catalog, query, server=name)} == {name}
    both = lines(catalog, query, server=["github", "actions"])
    assert {line.split(".")[0] for line in both} == {"servers", "actions"}
    assert lines(catalog, query, pattern=r"^actions\.github") == lines(catalog, query, server="actions")


def test_read_only_hides_actions_and_shows_skills() -> None:
    """What an action does are its calls; a skill is read."""
    catalog = catalog_of(action(), skill(about="Commits of a repository"))
    only = only_tools(read_only=True)
    assert [line.split(" ")[0] for line in lines(catalog, "commits repository", only=only)] == ["skills.pdf-forms"]
    labelled = only_tools(labels=["private"], labels_of=lambda _: {"private"})
    assert lines(catalog, "commits repository", only=labelled) == []


def test_without_entries_their_roots_are_no_servers() -> None:
    with pytest.raises(NotInCatalogError, match="no server 'actions'"):
        catalog_of(listing("github", TOOL)).search("x", server="actions")
    assert catalog_of(listing("github", TOOL)).library_line() == ""


def test_a_server_of_that_name_is_told_apart_by_its_path() -> None:
    server = listing("actions", {**TOOL, "name": "deploy", "description": "Deploy the commits"})
    catalog = catalog_of(server, action("deploy", "Deploy the commits"), action("other", "Undo the commits"))
    found = [hit.path for hit in catalog.search("deploy commits", server="actions")]
    assert set(found) == {"actions.deploy", "servers.actions.deploy", "actions.other"}
    kept = catalog.find_kept("actions.deploy")
    assert kept is not None
    assert kept.name == "deploy"
    assert catalog.find_kept("servers.actions.deploy") is None
    assert catalog.find_path("servers.actions.deploy").key == ("actions", "deploy")
    assert [summary.tool_count for summary in catalog.servers()] == [1]


def test_a_server_of_that_name_alone_is_found_as_ever() -> None:
    catalog = catalog_of(listing("actions", {**TOOL, "name": "deploy"}))
    assert [hit.path for hit in catalog.search("deploy", server="actions")] == ["servers.actions.deploy"]
    assert catalog.find_kept("actions.deploy") is None
    assert catalog.find_path("actions.deploy").key == ("actions", "deploy")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("skills.pdf-forms", "pdf-forms"),
        ("skills.pdf_forms", "pdf-forms"),
        ("skills._3d", "3d"),
        ("skills.pdf_form", None),
    ],
)
def test_a_skill_is_read_by_its_name_and_by_that_of_its_module(path: str, name: str | None) -> None:
    found = catalog_of(skill(), skill("3d")).find_kept(path)
    assert (found.name if found else None) == name


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("actions.github.top_commit", "no action 'github.top_commit' is kept here; near names: github.top_commits"),
        ("skills.zzz", "no skill 'zzz' is kept here; there are: pdf-forms"),
    ],
)
def test_a_path_that_misses_names_what_is_near(path: str, message: str) -> None:
    catalog = catalog_of(listing("time", {"name": "now"}), action(), skill())
    assert catalog.find_kept(path) is None
    with pytest.raises(NotInCatalogError, match=message):
        catalog.find_path(path)


@pytest.mark.parametrize("path", ["", ".", "actions", "actions.", "actions/github/top_commits", "x" * 5000])
def test_what_is_no_path_finds_nothing(path: str) -> None:
    assert catalog_of(action()).find_kept(path) is None


def test_the_list_of_servers_counts_them_in_one_short_line() -> None:
    line = catalog_of(action(), action("b"), skill()).library_line()
    assert line == "actions (2), skills (1): saved code and guides; a search finds them too"
    assert catalog_of(skill()).library_line().startswith("skills (1): ")


def test_a_library_changes_no_score_of_a_tool_beside_rarity_and_none_without_it() -> None:
    manifest = published_manifest()
    queries = ["list open issues", "send a message to a channel", "convert time between zones"]
    bare = Catalog(manifest)
    emptied = Catalog(Manifest(servers=manifest.servers, library=Library(entries=(action(), skill()))))
    emptied.update(manifest)
    for query in queries:
        assert bare.search(query) == emptied.search(query)
        assert bare.search(query) == Catalog(manifest).search(query)


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations([(), (action(),), (action(), skill())], 2)))
def test_an_updated_catalog_answers_like_a_new_one(
    first: tuple[LibraryEntry, ...], second: tuple[LibraryEntry, ...]
) -> None:
    def manifest(entries: tuple[LibraryEntry, ...]) -> Manifest:
        return Manifest(servers=(listing("github", TOOL),), library=Library(entries=entries))

    updated = Catalog(manifest(first))
    updated.update(manifest(second))
    for query in ("newest commits", "pdf form"):
        assert updated.search(query) == Catalog(manifest(second)).search(query)
        assert Catalog(manifest(first)).followed(manifest(second)).search(query) == updated.search(query)


class Even:
    """Vectors that find every tool equally near."""

    word_share, floor, bonus_share = 0.5, 0.1, 1.0

    def to_tools(self, query: str, /) -> list[float]:
        del query
        return [0.5, 0.2]


def test_entries_are_found_when_vectors_take_part() -> None:
    catalog = catalog_of(listing("github", TOOL, {"name": "zebra"}), action(), skill())
    catalog.use_similarity(Even())
    found = [hit.path for hit in catalog.search("newest commits repository")]
    assert found[0] == "actions.github.top_commits"
    assert "servers.github.top_commits" in found
    assert catalog.search("pdf form")[0].path == "skills.pdf-forms"
