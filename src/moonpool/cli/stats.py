"""`moonpool stats [tokens]`: what Moonpool saves and what it costs, measured."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  typer reads the annotations
from typing import Annotated, Literal

import typer


def stats(
    what: Annotated[
        Literal["all", "tokens"], typer.Argument(help="Everything, or tokens alone.", metavar="WHAT")
    ] = "all",
    *,
    config: Annotated[Path | None, typer.Option(help="Servers.", metavar="FILE")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    prometheus: Annotated[bool, typer.Option("--prometheus", help="Prometheus' text, from records only.")] = False,
    listen: Annotated[
        str | None,
        typer.Option(help="Serve /metrics there, on loopback, until a signal comes.", metavar="ADDRESS:PORT"),
    ] = None,
    tail: Annotated[int, typer.Option(help="At most so many audit records, the newest.", min=1)] = 100_000,
) -> None:
    """Report tokens saved, the time to find changed tools, and the sandbox's overhead with its spans."""
    from moonpool.cli.stats_report import print_all, print_prometheus, print_tokens

    if listen is not None:
        from moonpool.cli.stats_service import serve_figures
        from moonpool.core.errors import InputError

        if json or prometheus or what != "all":
            raise InputError("--listen serves all figures as Prometheus' text; leave out WHAT, --json and --prometheus")
        serve_figures(listen, config, tail)
    elif prometheus:
        print_prometheus(tail)
    elif what == "tokens":
        print_tokens(config, tail, as_json=json)
    else:
        print_all(config, tail, as_json=json)
