"""The catalog of a configuration, as `moonpool tools` prints it. No sandbox is opened.

SECURITY: text of servers is printed by `moonpool.catalog.render` or as escaped JSON: no control characters reach the
terminal.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.bootstrap import assemble_tools, data_folder, local_principal, make_learned_types, make_redactor
from moonpool.bootstrap.models import vector_maker
from moonpool.catalog.catalog import Catalog
from moonpool.catalog.filters import only_tools
from moonpool.catalog.render import LINE_CHARS_MAX, one_line
from moonpool.cli.config_choice import read_config
from moonpool.cli.printer import remark
from moonpool.configuration.policies import policy_in_force
from moonpool.core.errors import ConfigError
from moonpool.embeddings.errors import DenseUnavailableError
from moonpool.engine.missing_tools import missing_server, remarks_on
from moonpool.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

    from moonpool.catalog.filters import ToolFilter
    from moonpool.configuration.servers import McpConfig
    from moonpool.core.manifest import ToolDefinition
    from moonpool.features.learned_types.model import LearnedType
    from moonpool.tools.snapshot import ToolSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTools:
    """The catalog, and the command's exit code: 1 if no server could be reached."""

    catalog: Catalog
    exit_code: int
    config: McpConfig

    def only(self, *, read_only: bool, labels: Sequence[str]) -> ToolFilter | None:
        """The filter of a search; the labels are those of the policy. Raises what reading the policy raises."""
        if not labels:
            return only_tools(read_only=read_only)
        policy = policy_in_force(Settings.load(os.environ), self.config)
        return only_tools(
            read_only=read_only, labels=labels, labels_of=lambda tool: policy.returns(tool) | policy.does(tool)
        )

    def use_vectors(self) -> None:
        """Rank as configured if every vector is cached; otherwise say why not on stderr. Embeds nothing."""
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
            remark(f"search goes by words alone: {why}")
        else:
            self.catalog.use_similarity(similarity)

    def learned_type(self, tool: ToolDefinition) -> LearnedType | None:
        """The type learned from this user's earlier calls of `tool`."""
        settings = Settings.load(os.environ)
        redactor = make_redactor(settings, self.config)
        learned_types = make_learned_types(settings, self.config, data_folder(settings, os.environ), redactor)
        return asyncio.run(learned_types.of(local_principal(), tool))


@contextmanager
def open_catalog(path: Path | None, *, refresh: bool, say_all: bool = False) -> Generator[FoundTools]:
    """Yield the catalog; report missing servers on stderr. Raises ConfigError.

    Only `say_all` reports why they are missing and every broken tool of a server with many.
    """
    config = read_config(path)
    if config is None:
        raise ConfigError("no servers are configured; pass --config FILE or run `moonpool init`")
    snapshot = load_snapshot(config, refresh=refresh)
    for problem in _all_remarks(snapshot) if say_all else remarks_on(snapshot, briefly=True):
        remark(problem)
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
    of_code = {server.server_id for server in snapshot.manifest.servers}
    for server in snapshot.direct.servers:
        if server.server_id not in of_code:
            yield f"server {server.server_id!r} is not for code: its {len(server.tools)} tools are for clients (expose)"
    for server in snapshot.manifest.servers:
        for warning in server.warnings:
            yield f"server {server.server_id!r}: {warning}"


def load_snapshot(config: McpConfig, *, refresh: bool) -> ToolSnapshot:
    """The tools of `config`: from the cache while it is fresh, else from the servers."""
    return asyncio.run(_snapshot(config, refresh=refresh))


async def _snapshot(config: McpConfig, *, refresh: bool) -> ToolSnapshot:
    settings = Settings.load(os.environ)
    async with assemble_tools(settings, config=config, environ=os.environ) as tool_registry:
        return await (tool_registry.refresh() if refresh else tool_registry.snapshot())
