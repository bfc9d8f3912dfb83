"""`moonpool login SERVER`: give Moonpool leave to use a server in your name."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003  typer reads the annotations
from typing import Annotated

import typer


def login(
    server: Annotated[str, typer.Argument(help="Its name in the configuration.", metavar="SERVER")],
    *,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="Servers (mcpServers JSON). Default: ./moonpool.json, else what `init` wrote.",
            metavar="FILE",
        ),
    ] = None,
    headless: Annotated[
        bool, typer.Option("--headless", help="The browser is on another machine: paste what it shows at the end.")
    ] = False,
    scope: Annotated[
        str, typer.Option(help="Ask for these scopes too; separated by spaces.", metavar="SCOPES", show_default=False)
    ] = "",
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the browser.", min=1, max=3600)] = 300,
    forget: Annotated[bool, typer.Option("--forget", help="Forget the login instead.")] = False,
) -> None:
    """Log in to a server by OAuth: opens an address in a browser and stores the tokens, sealed."""
    from moonpool.cli.login_person import forget_login, log_in

    if forget:
        sys.exit(forget_login(server, config))
    sys.exit(log_in(server, config, scope=scope, timeout_s=None if headless else timeout))
