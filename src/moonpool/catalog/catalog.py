"""The catalog of one manifest: list, search and read tools. Host utilities, not MCP tools (H-049, H-051).

Servers and commands query it and print with `moonpool.catalog.render`. Ranking is in `moonpool.catalog.search`, the
names that code uses are in `moonpool.catalog.names`, stubs are made by `moonpool.wrappers`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, overload

from moonpool.catalog.dense import mixed
from moonpool.catalog.documents import KEPT_MARK, tool_document
from moonpool.catalog.entries import CatalogEntry, Detail, Hit
from moonpool.catalog.errors import CatalogQueryError, NotInCatalogError
from moonpool.catalog.filters import SlotFilter
from moonpool.catalog.index import Index
from moonpool.catalog.library_entries import (
    GROUPS,
    as_tool,
    entry_json,
    find_by_path,
    group_document,
    kind_of,
    library_line,
)
from moonpool.catalog.names import PACKAGE, GuestNames
from moonpool.catalog.questions import LIMIT_MAX, check_limit, checked_queries, compile_pattern
from moonpool.catalog.render import one_line
from moonpool.catalog.search import answer_in_turn, by_sentence, rank
from moonpool.catalog.summaries import server_summaries
from moonpool.catalog.unknown import bare_name, unknown_entry, unknown_server, unknown_tool
from moonpool.core.manifest import Manifest
from moonpool.core.naming import name_server_modules
from moonpool.features.library.model.bounds import KINDS, ROOTS
from moonpool.features.library.model.entries import Library
from moonpool.wrappers.stubs import render_stub
from moonpool.wrappers.typescript_stubs import render_typescript_stub

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from moonpool.catalog.dense import Similarity
    from moonpool.catalog.entries import ServerSummary
    from moonpool.catalog.filters import ToolFilter
    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import ServerListing, ToolDefinition
    from moonpool.features.learned_types.model import LearnedType
    from moonpool.features.library.model.entries import LibraryEntry

PATH_CHARS_MAX: Final = 1_000
_WHY_CHARS_MAX: Final = 600

Form: TypeAlias = Literal["stub", "typescript", "json"]


@dataclass(slots=True)
class Catalog:
    """All tools of one manifest, and its library. `update` takes a new manifest and reads only what changed."""

    manifest: Manifest
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    """Configured servers without tools in the manifest, with a sentence that says why."""
    _index: Index = field(init=False, default_factory=Index)
    _servers: dict[str, ServerListing] = field(init=False, default_factory=dict[str, "ServerListing"])
    _names: GuestNames = field(init=False)
    _library: Library = field(init=False, default_factory=Library)
    _kept: dict[tuple[str, str], ToolDefinition] = field(
        init=False, default_factory=dict[tuple[str, str], "ToolDefinition"]
    )
    _similarity: Similarity | None = field(init=False, default=None)
    _similarity_slots: list[int] = field(init=False, default_factory=list[int])

    def __post_init__(self) -> None:
        self.update(self.manifest)

    def use_similarity(self, similarity: Similarity) -> None:
        """Rank by vectors, too, from now on. `similarity` is for this manifest's `dense_texts`; a change drops it."""
        slots = self._index.slots_by_key()
        self._similarity_slots = [slots[tool.key] for tool in self.manifest.tools()]
        self._similarity = similarity

    @property
    def has_similarity(self) -> bool:
        return self._similarity is not None

    def update(self, manifest: Manifest) -> tuple[str, ...]:
        """Switch to `manifest`; return the servers that were reindexed or removed, in alphabetical order."""
        servers = {server.server_id: server for server in manifest.servers}
        changed = {
            name for name in self._servers.keys() | servers.keys() if self._servers.get(name) != servers.get(name)
        }
        if changed or [server.server_id for server in manifest.servers] != list(self._servers):
            self._similarity = None
        for name in sorted(changed):
            server = servers.get(name)
            self._index.replace(name, [tool_document(tool, server) for tool in server.tools] if server else ())
        self.manifest, self._servers, self._names = manifest, servers, GuestNames(manifest)
        self._update_library(manifest.library)
        return tuple(sorted(changed))

    def followed(self, manifest: Manifest) -> Catalog:
        """A new catalog of `manifest` that reads only what changed; this one is not modified. It starts without
        vectors.
        """
        other = Catalog(Manifest())
        other._index, other._servers = self._index.copied(), dict(self._servers)
        other._library, other._kept = self._library, self._kept
        other.update(manifest)
        return other

    def _update_library(self, library: Library) -> None:
        if library.digest == self._library.digest:
            return
        for kind in KINDS:
            self._index.replace(GROUPS[kind], [group_document(entry) for entry in library.of(kind)])
        self._kept = {(GROUPS[entry.kind], entry.name): as_tool(entry) for entry in library.entries}
        self._library = library

    def servers(self) -> tuple[ServerSummary, ...]:
        """One summary per server, in the manifest's order."""
        return server_summaries(self.manifest, self._names)

    def list(self, server: str | None = None, *, detail: Detail = "name+description") -> tuple[CatalogEntry, ...]:
        """Entries of all tools, or of one server's, in the manifest's order (H-046)."""
        tools = self.manifest.tools() if server is None else self._servers[self._server_id(server)].tools
        return tuple(CatalogEntry.of(tool, detail=detail) for tool in tools)

    def search(
        self,
        queries: str | Sequence[str],
        *,
        server: str | Sequence[str] | None = None,
        pattern: str | None = None,
        detail: Detail = "name+description",
        limit: int = 10,
        only: ToolFilter | None = None,
    ) -> tuple[Hit, ...]:
        """Answer each question with at most `limit` tools, in turn; no more than `LIMIT_MAX` in all.

        `server`, `pattern` (a regular expression over names and descriptions) and `only` (`moonpool.catalog.filters`)
        filter; ranking decides the order. Saved actions and skills are answers, too, as if of servers `actions` and
        `skills`.
        """
        asked = checked_queries(queries)
        check_limit(limit)
        admit = self._filter(server, pattern, only)
        mix, share = (self._mix(), self._similarity.bonus_share) if self._similarity else (None, 1.0)
        rankings = [rank(self._index, one, limit=limit, admit=admit, mix=mix, bonus_share=share) for one in asked]
        hits: list[Hit] = []
        for query_index, ranked in answer_in_turn(rankings)[:LIMIT_MAX]:
            tool = self._tool(ranked.key)
            hits.append(
                Hit(
                    entry=CatalogEntry.of(tool, detail=detail),
                    path=self.path(tool),
                    score=ranked.score,
                    query_index=query_index,
                    also=tuple(self.path(self._tool(key)) for key in ranked.also),
                )
            )
        return tuple(hits)

    @overload
    def definition(
        self,
        server: str,
        name: str,
        as_: Literal["stub", "typescript"] = "stub",
        *,
        learned_type: LearnedType | None = None,
    ) -> str: ...
    @overload
    def definition(
        self, server: str, name: str, as_: Literal["json"], *, learned_type: LearnedType | None = None
    ) -> JsonObject: ...
    @overload
    def definition(
        self, server: str, name: str, as_: Form, *, learned_type: LearnedType | None = None
    ) -> str | JsonObject: ...
    def definition(
        self, server: str, name: str, as_: Form = "stub", *, learned_type: LearnedType | None = None
    ) -> str | JsonObject:
        """The full definition of one tool: as a stub, or the upstream's unchanged JSON (H-047).

        A stub includes `learned_type`, which comes from the caller's own calls.
        """
        tool = self.find(server, name)
        if as_ == "json":
            return tool.raw
        render = render_typescript_stub if as_ == "typescript" else render_stub
        return render(tool, names=self._names.tree, learned_type=learned_type)

    def find(self, server: str, name: str) -> ToolDefinition:
        """One tool by its server's id and its name, or by the names that code uses. Raises NotInCatalogError."""
        server_id = self._server_id(server, name)
        tool = self._names.tool(server_id, name)
        if tool is None:
            raise unknown_tool(self._servers[server_id], name, self._paths())
        return tool

    def find_kept(self, path: str) -> LibraryEntry | None:
        """The saved action or skill that `path` names, in the form of a hit's line, or None."""
        return find_by_path(self._library, path[:PATH_CHARS_MAX])

    def kept_definition(self, entry: LibraryEntry, as_: Form = "stub") -> str | JsonObject:
        """The signature of an action, or the description of a skill. INVARIANT: no code of an action's body (I-103)."""
        return entry_json(entry) if as_ == "json" else entry.definition

    def library_line(self) -> str:
        """A line with the number of saved actions and skills, for the list of servers; empty without any."""
        return library_line(self._library)

    def find_path(self, path: str) -> ToolDefinition:
        """One tool by the path in a hit's line, by `server.tool`, or by its name alone if unique.

        Raises NotInCatalogError, CatalogQueryError.
        """
        if len(path) > PATH_CHARS_MAX:
            raise CatalogQueryError(f"a path of {len(path)} characters names no tool: write it as server.tool")
        read = list(self._names.splits(path))
        for server_id, name in read:
            if tool := self._names.tool(server_id, name):
                return tool
        if read:
            server_id, name = read[0]
            raise unknown_tool(self._servers[server_id], name, self._paths())
        self._refuse_unknown_entry(path)
        self._refuse_missing(path)
        server, dot, name = path.removeprefix(PACKAGE).partition(".")
        return self.find(server, name) if dot else self._find_bare(server)

    def _find_bare(self, name: str) -> ToolDefinition:
        if not name.strip() or self._names.server_id(name) is not None:
            what = "is a server" if name.strip() else "names no tool"
            raise CatalogQueryError(f"{one_line(name)!r} {what}: write a tool as server.tool")
        found = [tool for server in self._servers if (tool := self._names.tool(server, name)) is not None]
        if len(found) == 1:
            return found[0]
        raise bare_name(name, self._paths(), [self.path(tool) for tool in found])

    def _paths(self) -> dict[str, str]:
        """Paths of all tools, by name; for messages."""
        return {tool.name: self.path(tool) for tool in self.manifest.tools()}

    def path(self, tool: ToolDefinition) -> str:
        """The path of `tool` in sandbox code: `servers.time.get_current_time`."""
        if kind_of(tool.server_id) is not None:
            return f"{tool.server_id.removeprefix(KEPT_MARK)}.{tool.name}"
        return self._names.path(tool.server_id, tool.name)

    def _mix(self) -> Callable[[str, list[float]], list[float]]:
        """A function that mixes vectors into scores. Called once per search, so that all questions are ranked alike."""
        similarity, slots = self._similarity, self._similarity_slots
        assert similarity is not None

        def mix(query: str, words: list[float]) -> list[float]:
            similar = by_sentence(query, lambda text: list(similarity.to_tools(text)))
            of_tools = [words[slot] for slot in slots]
            scores = self._kept_scores(words, best=max(of_tools, default=0.0))
            for slot, score in zip(slots, mixed(of_tools, similar, similarity), strict=True):
                scores[slot] = score
            return scores

        return mix

    def _kept_scores(self, words: list[float], *, best: float) -> list[float]:
        """Scores of library entries, which have no vectors: their word scores on the scale of mixed scores, where the
        best tool has 1.
        """
        scores = [0.0] * len(words)
        slots = self._index.slots_of(GROUPS.values())
        top = best or max((words[slot] for slot in slots), default=0.0)
        for slot in slots if top > 0 else ():
            scores[slot] = min(1.0, words[slot] / top)
        return scores

    def _tool(self, key: tuple[str, str]) -> ToolDefinition:
        tool = self._kept.get(key) or self.manifest.find(*key)
        assert tool is not None, f"the index holds {key}, the manifest does not"
        return tool

    def _filter(
        self, server: str | Sequence[str] | None, pattern: str | None, only: ToolFilter | None
    ) -> SlotFilter | None:
        if server is None and pattern is None and only is None:
            return None
        slots: frozenset[int] | None = None
        if server is not None:
            names = [server] if isinstance(server, str) else list(server)
            slots = self._index.slots_of([one for name in names for one in self._groups(name)])
        matches = compile_pattern(pattern) if pattern is not None else None
        return SlotFilter(index=self._index, find=self._tool, path=self.path, slots=slots, matches=matches, only=only)

    def _groups(self, name: str) -> list[str]:
        """The groups that a filter by `name` admits: a server, all entries of a kind, or both if a server has that
        name.
        """
        kept = [GROUPS[kind] for kind in KINDS if ROOTS[kind] == name and self._library.of(kind)]
        server = self._names.server_id(name) if kept else self._server_id(name)
        return [*kept, *([server] if server is not None else [])]

    def _refuse_unknown_entry(self, path: str) -> None:
        root, _, name = path.partition(".")
        for kind in KINDS:
            if ROOTS[kind] == root and (names := [entry.name for entry in self._library.of(kind)]):
                raise unknown_entry(kind, name, names)

    def _refuse_missing(self, path: str) -> None:
        """Raises NotInCatalogError if `path` is a configured server that could not be listed, or a tool of it."""
        bare = f"{path.removeprefix(PACKAGE)}."
        modules = name_server_modules([*self._servers, *self.missing]) if self.missing else {}
        for server_id, why in self.missing.items():
            if bare.startswith((f"{server_id}.", f"{modules[server_id]}.")):
                raise NotInCatalogError(one_line(why, _WHY_CHARS_MAX))

    def _server_id(self, name: str, tool: str = "") -> str:
        server_id = self._names.server_id(name)
        if server_id is not None:
            return server_id
        self._refuse_missing(name)
        raise unknown_server(name, self._servers, tool, self._paths())
