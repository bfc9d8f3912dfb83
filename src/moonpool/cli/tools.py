"""`moonpool tools list|search|show|drift|accept`: the tools of the configured servers, without running code.

SECURITY: an acceptance refers by digest to what was shown: printed by `drift`, or shown here to a person who answers.
Text of servers is printed without control characters.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from typing import TYPE_CHECKING

import click

from moonpool.bootstrap import assemble_tools
from moonpool.catalog.render import LINE_CHARS_MAX, about_tool, hit_lines, manifest_lines, one_line
from moonpool.cli.commands import command_group, config_option, json_lines
from moonpool.cli.config_choice import read_config
from moonpool.cli.printer import print_json, printable, remark
from moonpool.cli.service_data import ChosenTenant, tenant_options, with_service_data
from moonpool.cli.tool_catalog import FoundTools, open_catalog
from moonpool.core.errors import ConfigError, InputError
from moonpool.features.drift.model.acceptance import shown_digest
from moonpool.features.drift.model.changes import Severity
from moonpool.features.drift.service import choose

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from moonpool.catalog.catalog import Catalog, Form
    from moonpool.catalog.entries import Detail, Hit
    from moonpool.configuration.servers import McpConfig
    from moonpool.core.json import JsonObject
    from moonpool.engine.tool_registry import ToolRegistry
    from moonpool.features.drift.model.changes import ToolDiff

_LINE_CHARS_MAX = 400

app = command_group("The tools of the configured servers.")


@app.command("list")
@click.argument("server", required=False, help="The same as --server.")
@config_option
@click.option("--server", "only", multiple=True, metavar="SERVER", help="Only this server; repeatable.")
@json_lines
@click.option("--refresh", is_flag=True, help="Ask the servers again, whatever is cached.")
def list_(server: str | None, *, config: Path | None, only: tuple[str, ...], as_json: bool, refresh: bool) -> int:
    """List the servers and how many tools each has; with SERVER or --json, its tools."""
    with open_catalog(config, refresh=refresh, say_all=True) as found:
        _print_tools(found.catalog, [*([server] if server else []), *only], as_json=as_json)
    return found.exit_code


@app.command("search")
@click.argument(
    "queries",
    metavar="QUESTION...",
    nargs=-1,
    required=True,
    help="What the tool should do; several questions are answered in turn.",
)
@config_option
@click.option("--server", multiple=True, metavar="SERVER", help="Only this server; repeatable.")
@click.option("--limit", type=int, default=10, metavar="COUNT", show_default=True, help="Tools per question.")
@click.option("--read-only", is_flag=True, help="Only tools whose server says that they read.")
@click.option(
    "--label", multiple=True, metavar="LABEL", help="Only tools that the policy labels so, e.g. sends_out; repeatable."
)
@click.option("--match", metavar="REGEX", help="Only tools whose name or description matches this regular expression.")
@click.option(
    "--detail",
    type=click.Choice(["name", "name+description"]),
    default="name+description",
    show_default=True,
    help="What is shown.",
)
@json_lines
@click.option("--refresh", is_flag=True, help="Ask the servers again, whatever is cached.")
def search(  # noqa: PLR0913  options of a command
    queries: tuple[str, ...],
    *,
    config: Path | None,
    server: tuple[str, ...],
    limit: int,
    read_only: bool,
    label: tuple[str, ...],
    match: str | None,
    detail: Detail,
    as_json: bool,
    refresh: bool,
) -> int:
    """Find tools by words, best first."""
    with open_catalog(config, refresh=refresh) as found:
        only = found.only(read_only=read_only, labels=label)
        found.use_vectors()
        hits = found.catalog.search(
            queries, server=server or None, pattern=match, detail=detail, limit=limit, only=only
        )
        _print_hits(hits, as_json=as_json, narrowed=bool(server or match or only))
    return found.exit_code


@app.command("show")
@click.argument(
    "paths",
    metavar="PATH...",
    nargs=-1,
    required=True,
    help="As `search` prints it (servers.time.get_current_time) or server.tool.",
)
@config_option
@click.option(
    "--as",
    "as_",
    type=click.Choice(["stub", "typescript", "json"]),
    default="stub",
    show_default=True,
    help="Python or TypeScript, or the server's own definition, member by member.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --as json.")
@click.option("--refresh", is_flag=True, help="Ask the servers again, whatever is cached.")
def show(paths: tuple[str, ...], *, config: Path | None, as_: Form, as_json: bool, refresh: bool) -> int:
    """Show tools: how code calls them and what they return."""
    with open_catalog(config, refresh=refresh) as found:
        _print_definitions(found, paths, "json" if as_json else as_)
    return found.exit_code


@app.command("drift")
@config_option
@json_lines
@click.option("--refresh", is_flag=True, help="Ask the servers again, whatever is cached.")
@tenant_options
def drift(*, tenant: ChosenTenant, config: Path | None, as_json: bool, refresh: bool) -> None:
    """Show tools that their servers changed dangerously since they were accepted."""
    servers = _servers(tenant, config)
    asyncio.run(_print_changes(tenant, servers, config, refresh=refresh, as_json=as_json))


@app.command("accept")
@click.argument("name", metavar="SERVER[.TOOL]", help="All open changes of a server, or one tool's.")
@click.option(
    "--digest", metavar="DIGEST", help="What you saw, as `drift` printed it. At a terminal you are asked instead."
)
@config_option
@tenant_options
def accept(name: str, *, tenant: ChosenTenant, digest: str | None, config: Path | None) -> int:
    """Accept changed tools as they are now, so that they can be called again."""
    return asyncio.run(_accept(tenant, _servers(tenant, config), name, digest))


def _servers(tenant: ChosenTenant, config: Path | None) -> McpConfig:
    servers = read_config(config)
    if (org := tenant.org) is not None:
        from moonpool.bootstrap.organisation_servers import servers_for

        url = tenant.settings.database_url
        return with_service_data(tenant.data, url, lambda opened: servers_for(opened, org, servers))
    if servers is None:
        raise ConfigError("no servers are configured; pass --config FILE or run `moonpool init`")
    return servers


def _tool_registry(tenant: ChosenTenant, servers: McpConfig) -> AbstractAsyncContextManager[ToolRegistry]:
    return assemble_tools(tenant.settings, config=servers, environ=os.environ, tenant_id=tenant.tenant_id)


async def _print_changes(
    tenant: ChosenTenant, servers: McpConfig, config: Path | None, *, refresh: bool, as_json: bool
) -> None:
    async with _tool_registry(tenant, servers) as tool_registry:
        snapshot = await (tool_registry.refresh() if refresh else tool_registry.snapshot())
    for problem in snapshot.problems.values():
        remark(f"{problem}; its tools cannot be compared")
    if as_json:
        for diff in snapshot.changes:
            print_json(_members(diff, held=(diff.server_id, diff.tool_name) in snapshot.manifest.held))
        return
    for diff in snapshot.changes:
        _say(_lines(diff))
        click.echo(f"  accept it: {accept_command(_name(diff), [diff], config, tenant.org)}")
    for server_id in dict.fromkeys(diff.server_id for diff in snapshot.changes):
        of_server = [diff for diff in snapshot.changes if diff.server_id == server_id]
        if len(of_server) > 1:
            name = printable(server_id)
            click.echo(f"accept all of {name}: {accept_command(name, of_server, config, tenant.org)}")
    if not snapshot.changes:
        remark("no tool has an open change")


async def _accept(tenant: ChosenTenant, servers: McpConfig, name: str, digest: str | None) -> int:
    async with _tool_registry(tenant, servers) as tool_registry:
        snapshot = await tool_registry.snapshot()
        diffs = choose(snapshot.changes, name, tool_registry.server_ids)
        if digest is None:
            if not sys.stdin.isatty():
                raise InputError("--digest is missing: it says what you saw; `moonpool tools drift` prints it")
            for diff in diffs:
                _say(_lines(diff))
            if not await asyncio.to_thread(click.confirm, f"Accept {len(diffs)} changed tool(s)?", err=True):
                return 1
            digest = shown_digest(diffs)
        accepted = await tool_registry.accept(name, digest)
    for diff in accepted:
        click.echo(f"accepted {_name(diff)}")
    return 0


def _lines(diff: ToolDiff) -> Iterable[str]:
    yield _name(diff)
    for change in diff.changes:
        mark = "!" if change.severity is Severity.DANGEROUS else " "
        yield f"{mark} {change.kind}: {change.reason}"


def _members(diff: ToolDiff, *, held: bool) -> JsonObject:
    return {
        "server": diff.server_id,
        "tool": diff.tool_name,
        "paused": held,
        "before": diff.before_digest,
        "after": diff.after_digest,
        "digest": shown_digest([diff]),
        "changes": [change.to_json() for change in diff.changes],
    }


def accept_command(name: str, diffs: Sequence[ToolDiff], config: Path | None = None, org: str | None = None) -> str:
    """SECURITY: the server chose the name, and somebody will put the command into a shell."""
    where = f" --config {shlex.quote(printable(str(config)))}" if config else ""
    where += f" --org {org}" if org else ""
    return f"moonpool tools accept {shlex.quote(name)} --digest {_short(diffs)}{where}"


def _name(diff: ToolDiff) -> str:
    return printable(f"{diff.server_id}.{diff.tool_name}")


def _short(diffs: Sequence[ToolDiff]) -> str:
    return shown_digest(diffs).removeprefix("sha256:")[:32]


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(printable(line[:_LINE_CHARS_MAX]))


def _print_tools(catalog: Catalog, servers: Sequence[str], *, as_json: bool) -> None:
    """Print servers with their tool counts, or tools if servers were named or JSON is wanted."""
    entries = [entry for server in servers or [None] for entry in catalog.list(server)]
    if as_json:
        for entry in entries:
            print_json(entry.to_json())
    elif not servers:
        _print(manifest_lines(catalog.servers()))
        _print(catalog.library_line())
    else:
        for entry in entries:
            path = catalog.path(catalog.find(entry.server_id, entry.tool_name))
            about = about_tool(entry)
            _print(one_line(f"{path} — {about}" if about else path, LINE_CHARS_MAX))


def _print_hits(hits: Sequence[Hit], *, as_json: bool, narrowed: bool) -> None:
    """Print one line per hit; `narrowed` if there was a filter."""
    if not as_json:
        _print(hit_lines(hits, narrowed=narrowed))
        return
    for hit in hits:
        print_json(hit.to_json())


def _print_definitions(found: FoundTools, paths: Sequence[str], form: Form) -> None:
    """Print stubs with a line between them, or raw definitions. Raises before anything is printed."""
    between = "\n" if form == "json" else "\n\n"
    _print(between.join([_definition(found, path, form) for path in paths]))


def _definition(found: FoundTools, path: str, form: Form) -> str:
    """The stub or the raw definition."""
    if (entry := found.catalog.find_kept(path)) is not None:
        definition = found.catalog.kept_definition(entry, form)
    else:
        tool = found.catalog.find_path(path)
        learned_type = None if form == "json" else found.learned_type(tool)
        definition = found.catalog.definition(*tool.key, form, learned_type=learned_type)
    if isinstance(definition, str):
        return "".join(char if char == "\n" or char.isprintable() else "?" for char in definition.rstrip("\n"))
    return json.dumps(definition, indent=2)


def _print(text: str) -> None:
    if text:
        click.echo(text)
