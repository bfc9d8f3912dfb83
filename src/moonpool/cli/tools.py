"""`moonpool tools list|search|show|drift|accept`: what the configured servers offer, without running any code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from moonpool.cli.command_group import command_group

app = command_group("The tools of the configured servers.")

Config = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Servers (mcpServers JSON). Default: ./moonpool.json, else what `init` wrote.", metavar="FILE"
    ),
]
Server = Annotated[list[str] | None, typer.Option("--server", help="Only this server; repeatable.", metavar="SERVER")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]
Refresh = Annotated[bool, typer.Option("--refresh", help="Ask the servers again, whatever is cached.")]


@app.command(name="list")
def list_(
    server: Annotated[
        str | None, typer.Argument(help="The same as --server.", show_default=False, metavar="SERVER")
    ] = None,
    *,
    config: Config = None,
    only: Server = None,
    json: Json = False,
    refresh: Refresh = False,
) -> None:
    """List the servers and how many tools each has; with SERVER or --json, its tools."""
    from moonpool.cli.tool_catalog import open_catalog, print_tools

    with open_catalog(config, refresh=refresh, say_all=True) as found:
        print_tools(found.catalog, [*([server] if server else []), *(only or [])], as_json=json)
    sys.exit(found.exit_code)


@app.command()
def search(  # noqa: PLR0913  options of a command
    queries: Annotated[
        list[str],
        typer.Argument(help="What the tool should do; several questions are answered in turn.", metavar="QUESTION"),
    ],
    *,
    config: Config = None,
    server: Server = None,
    limit: Annotated[int, typer.Option(help="Tools per question.")] = 10,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only tools whose server says that they read.")
    ] = False,
    label: Annotated[
        list[str] | None,
        typer.Option(help="Only tools that the policy labels so, e.g. sends_out; repeatable.", metavar="LABEL"),
    ] = None,
    match: Annotated[
        str | None,
        typer.Option(help="Only tools in whose name or text this regular expression finds something.", metavar="REGEX"),
    ] = None,
    detail: Annotated[Literal["name", "name+description"], typer.Option(help="What is shown.")] = "name+description",
    json: Json = False,
    refresh: Refresh = False,
) -> None:
    """Find tools by words, best first."""
    from moonpool.cli.tool_catalog import open_catalog, print_hits

    with open_catalog(config, refresh=refresh) as found:
        only = found.only(read_only=read_only, labels=label or [])
        found.use_vectors()
        hits = found.catalog.search(
            queries, server=server or None, pattern=match, detail=detail, limit=limit, only=only
        )
        print_hits(hits, as_json=json, narrowed=bool(server or match or only))
    sys.exit(found.exit_code)


@app.command()
def show(
    paths: Annotated[
        list[str],
        typer.Argument(help="As `search` prints it (servers.time.get_current_time) or server.tool.", metavar="PATH"),
    ],
    *,
    config: Config = None,
    as_: Annotated[
        Literal["stub", "typescript", "json"],
        typer.Option("--as", help="Python or TypeScript, or the server's own definition, member by member."),
    ] = "stub",
    json: Annotated[bool, typer.Option("--json", help="The same as --as json.")] = False,
    refresh: Refresh = False,
) -> None:
    """Show tools: how code calls them and what they give."""
    from moonpool.cli.tool_catalog import open_catalog, print_definitions

    with open_catalog(config, refresh=refresh) as found:
        print_definitions(found, paths, "json" if json else as_)
    sys.exit(found.exit_code)


@app.command()
def drift(
    *,
    config: Config = None,
    json: Json = False,
    refresh: Refresh = False,
) -> None:
    """Show tools that their servers changed dangerously since they were accepted."""
    from moonpool.cli.tool_changes import print_changes

    print_changes(config, refresh=refresh, as_json=json)


@app.command()
def accept(
    name: Annotated[str, typer.Argument(help="All open changes of a server, or one tool's.", metavar="SERVER[.TOOL]")],
    *,
    digest: Annotated[
        str | None,
        typer.Option(
            help="What you saw, as `drift` printed it. At a terminal you are asked instead.", metavar="DIGEST"
        ),
    ] = None,
    config: Config = None,
) -> None:
    """Accept changed tools as they are now, so that they can be called again."""
    from moonpool.cli.tool_changes import accept_changes

    sys.exit(accept_changes(config, name, digest))
