"""`moonpool preview`: what code would call, read off its text. Nothing is run."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003  typer reads the annotations
from typing import Annotated

import typer


def preview(
    file: Annotated[
        str | None,
        typer.Argument(help="File with code; `-` reads standard input.", show_default=False, metavar="FILE"),
    ] = None,
    code: Annotated[str | None, typer.Option("-c", "--code", help="Code to read instead of a file.")] = None,
    language: Annotated[
        str | None,
        typer.Option("-l", "--language", help="Default: by the file's name, else python.", metavar="NAME"),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Servers (mcpServers JSON). Default: ./moonpool.json, else what `moonpool init` wrote.", metavar="FILE"
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    refresh: Annotated[bool, typer.Option("--refresh", help="Ask the servers again, whatever is cached.")] = False,
) -> None:
    """List the wrappers that code imports and the tools it calls, and what is certain to be refused. Runs nothing.

    Exit code 0 without errors, 1 with some, 2 when the code cannot be previewed. The run decides all the same.
    """
    from moonpool.cli.preview_report import print_preview

    sys.exit(print_preview(file, code, language, config, as_json=json, refresh=refresh))
