"""The catalog of a configuration, as `moonpool tools` prints it. No sandbox is opened.

SECURITY: what servers wrote is printed by `moonpool.catalog.render` or as escaped JSON: no control characters reach the
terminal.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from moonpool.bootstrap import assemble_tools, data_folder, local_principal, make_lessons, make_redactor
from moonpool.bootstrap.models import vector_maker
from moonpool.broker.policies import policy_in_force
from moonpool.catalog.catalog import Catalog
from moonpool.catalog.filters import only_tools
from moonpool.catalog.render import LINE_CHARS_MAX, about_tool, hit_lines, manifest_lines, one_line
from moonpool.cli.config_choice import read_config
from moonpool.core.errors import ConfigError
from moonpool.embeddings.errors import DenseUnavailableError
from moonpool.runtime.missing_tools import missing_server, remarks_on
from moonpool.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

    from moonpool.broker.config import McpConfig
    from moonpool.catalog.catalog import Form
    from moonpool.catalog.entries import Hit
    from moonpool.catalog.filters import ToolFilter
    from moonpool.core.json import JsonObject
    from moonpool.core.lessons import Lesson
    from moonpool.core.manifest import ToolDefinition
    from moonpool.runtime.tool_snapshot import ToolSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTools:
    """The catalog, and the exit code that goes with it: 1 when no server could be reached."""

    catalog: Catalog
    exit_code: int
    config: McpConfig

    def only(self, *, read_only: bool, labels: Sequence[str]) -> ToolFilter | None:
        """What a search may answer with; the labels are those of the policy. Raises what reading it raises."""
        if not labels:
            return only_tools(read_only=read_only)
        policy = policy_in_force(Settings.load(os.environ), self.config)
        return only_tools(
            read_only=read_only, labels=labels, labels_of=lambda tool: policy.returns(tool) | policy.does(tool)
        )

    def use_vectors(self) -> None:
        """Rank as the settings ask where every vector is cached; say on stderr why not otherwise. Embeds nothing."""
        settings = Settings.load(os.environ)
        maker = vector_maker(settings, data_folder(settings, os.environ))
        if maker is None:
            return
        why = "`moonpool mcp` has not made the vectors of all these tools yet"
        try:
            similarity = maker.cached(self.catalog.manifest)
        except DenseUnavailableError as error:
            similarity, why = None, str(error)
        if similarity is None:
            sys.stderr.write(f"moonpool: search goes by words alone: {why}\n")
        else:
            self.catalog.use_similarity(similarity)

    def lesson(self, tool: ToolDefinition) -> Lesson | None:
        """What this user's earlier calls taught about `tool`."""
        settings = Settings.load(os.environ)
        redactor = make_redactor(settings, self.config)
        lessons = make_lessons(settings, self.config, data_folder(settings, os.environ), redactor)
        return asyncio.run(lessons.of(local_principal(), tool))


@contextmanager
def open_catalog(path: Path | None, *, refresh: bool, say_all: bool = False) -> Generator[FoundTools]:
    """Yield the catalog; name servers that are missing on stderr. Raises ConfigError.

    Why they are missing, and each broken tool of a server that has many, only `say_all` tells.
    """
    config = read_config(path)
    if config is None:
        raise ConfigError("no servers are configured; pass --config FILE or run `moonpool init`")
    snapshot = load_snapshot(config, refresh=refresh)
    for remark in _all_remarks(snapshot) if say_all else remarks_on(snapshot, briefly=True):
        sys.stderr.write(f"moonpool: {remark}\n")
    nothing = bool(snapshot.problems) and not snapshot.manifest.servers
    disabled = {one: f"server {one!r} is disabled in {config.source}" for one in config.disabled}
    unlisted = {one: missing_server(why) for one, why in snapshot.problems.items() if one in snapshot.missing}
    catalog = Catalog(snapshot.manifest, missing={**disabled, **unlisted})
    yield FoundTools(catalog=catalog, exit_code=int(nothing), config=config)


def _all_remarks(snapshot: ToolSnapshot) -> Generator[str]:
    for problem in snapshot.problems.values():
        yield missing_server(problem)
    for server_id, name in sorted(snapshot.manifest.held):
        paused = one_line(f"{server_id}.{name} is paused, because its server changed it", LINE_CHARS_MAX)
        yield f"{paused}; see `moonpool tools drift`"
    for server in snapshot.manifest.servers:
        for warning in server.warnings:
            yield f"server {server.server_id!r}: {warning}"


def load_snapshot(config: McpConfig, *, refresh: bool) -> ToolSnapshot:
    """The tools of `config`: from the cache while it is fresh, else asked for."""
    return asyncio.run(_snapshot(config, refresh=refresh))


async def _snapshot(config: McpConfig, *, refresh: bool) -> ToolSnapshot:
    settings = Settings.load(os.environ)
    async with assemble_tools(settings, config=config, environ=os.environ) as toolbox:
        return await (toolbox.refresh() if refresh else toolbox.snapshot())


def print_tools(catalog: Catalog, servers: Sequence[str], *, as_json: bool) -> None:
    """Servers with their tool counts, or tools when some servers or JSON are wanted."""
    entries = [entry for server in servers or [None] for entry in catalog.list(server)]
    if as_json:
        for entry in entries:
            _print_json(entry.to_json())
    elif not servers:
        _print(manifest_lines(catalog.servers()))
        _print(catalog.library_line())
    else:
        for entry in entries:
            path = catalog.path(catalog.find(entry.server_id, entry.tool_name))
            about = about_tool(entry)
            _print(one_line(f"{path} — {about}" if about else path, LINE_CHARS_MAX))


def print_hits(hits: Sequence[Hit], *, as_json: bool, narrowed: bool) -> None:
    """One line per hit; `narrowed` when there was a filter."""
    if not as_json:
        _print(hit_lines(hits, narrowed=narrowed))
        return
    for hit in hits:
        _print_json(hit.to_json())


def print_definitions(found: FoundTools, paths: Sequence[str], form: Form) -> None:
    """Stubs with a line between them, or raw definitions one after the other. Raises before anything is printed."""
    between = "\n" if form == "json" else "\n\n"
    _print(between.join([_definition(found, path, form) for path in paths]))


def _definition(found: FoundTools, path: str, form: Form) -> str:
    """The stub, or the raw definition."""
    if (entry := found.catalog.find_kept(path)) is not None:
        definition = found.catalog.kept_definition(entry, form)
    else:
        tool = found.catalog.find_path(path)
        lesson = None if form == "json" else found.lesson(tool)
        definition = found.catalog.definition(*tool.key, form, lesson=lesson)
    if isinstance(definition, str):
        return "".join(char if char == "\n" or char.isprintable() else "?" for char in definition.rstrip("\n"))
    return json.dumps(definition, indent=2)


def _print_json(members: JsonObject) -> None:
    _print(json.dumps(members))


def _print(text: str) -> None:
    if text:
        typer.echo(text)
