"""`moonpool mcp`: the stdio MCP server. Nothing but MCP goes to stdout."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  typer reads the annotations
from typing import Annotated

import typer

from moonpool.cli.approvers import Approve


def mcp(
    *,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Servers (mcpServers JSON). Default: ./moonpool.json, else what `moonpool init` wrote.", metavar="FILE"
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="Rules for tool calls (TOML). Default: MOONPOOL_POLICY, else none.", metavar="FILE"),
    ] = None,
    env: Annotated[
        str | None, typer.Option(help="Environment: base or data. Default: data once it was built.", metavar="NAME")
    ] = None,
    approve: Annotated[
        Approve, typer.Option(help="When policy says ask: the client's user, yes, no, or the queue.")
    ] = Approve.ASK,
    catalog: Annotated[
        str | None,
        typer.Option(
            help="Where the client finds tools: by tools of ours, or in code (execute_code alone).",
            metavar="tools|code",
        ),
    ] = None,
    metrics_listen: Annotated[
        str | None,
        typer.Option(
            help="Serve /metrics there, on loopback; port 0: a free one. Default: the setting.", metavar="ADDRESS:PORT"
        ),
    ] = None,
    backend: Annotated[str | None, typer.Option(help="Sandbox: zygote or bubblewrap.", metavar="NAME")] = None,
) -> None:
    """Serve MCP on standard input and output: three tools (or one) in front of all configured servers."""
    import asyncio

    from moonpool.cli.importing import no_collection

    with no_collection():
        from moonpool.cli.mcp_service import serve_stdio

    asyncio.run(
        serve_stdio(
            config,
            approve,
            policy=policy,
            environment=env,
            backend=backend,
            catalog=catalog,
            metrics_listen=metrics_listen,
        )
    )
