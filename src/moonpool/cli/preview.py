"""`moonpool preview`: what code would call, by static analysis. Nothing is run.

SECURITY: names and values come from the code and from servers: everything printed is made printable first.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from moonpool.bootstrap.stores import opened_stores
from moonpool.cli.code_source import read_code
from moonpool.cli.commands import command, config_option, json_object
from moonpool.cli.config_choice import data_folder, read_config
from moonpool.cli.exit_codes import EXIT_FAILED, EXIT_OK
from moonpool.cli.library_rows import problem_on_stderr
from moonpool.cli.printer import print_json, remark
from moonpool.cli.tool_catalog import load_snapshot
from moonpool.core.errors import InputError
from moonpool.core.languages import PYTHON
from moonpool.core.manifest import Manifest
from moonpool.core.phrases import printable
from moonpool.features.library.service import LibraryView
from moonpool.features.preview.service import SOURCE_BYTES_MAX, missing_servers, preview_code
from moonpool.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from moonpool.features.preview.model import Finding, Preview, PreviewedCall


@command
@click.argument("file", required=False, help="File with code; `-` reads standard input.")
@click.option("-c", "--code", "inline", help="Code to read instead of a file.")
@click.option("-l", "--language", metavar="NAME", help="Default: by the file's name, else python.")
@config_option
@json_object
@click.option("--refresh", is_flag=True, help="Ask the servers again, whatever is cached.")
def preview(
    file: str | None, inline: str | None, language: str | None, config: Path | None, as_json: bool, refresh: bool
) -> int:
    """List the wrappers that code imports, the tools it calls, and calls that are certain to be refused. Runs nothing.

    Exit code 0 without errors, 1 with errors, 2 if the code cannot be previewed. Policy decides again at the run.
    """
    settings = Settings.load(os.environ)
    source = read_code(file, inline, language, bytes_max=min(settings.code_bytes_max, SOURCE_BYTES_MAX))
    manifest, missing = Manifest(), tuple[str, ...]()
    if source.language == PYTHON:
        chosen = read_config(config)
        if chosen is None:
            with opened_stores(settings, data_folder(settings)) as stores:
                library = LibraryView(stores.library(), tell=problem_on_stderr).read().library
            manifest = Manifest(library=library)
        else:
            snapshot = load_snapshot(chosen, refresh=refresh)
            manifest, missing = snapshot.manifest, missing_servers(snapshot)
            for problem in snapshot.problems.values():
                remark(f"{printable(problem)}")
    preview = preview_code(source.code, manifest, language=source.language, missing=missing)
    if preview.not_read:
        raise InputError(preview.not_read)
    if as_json:
        print_json(preview.to_json())
    else:
        click.echo("\n".join(_lines(preview)))
    return EXIT_FAILED if preview.has_errors else EXIT_OK


def _lines(preview: Preview) -> Iterator[str]:
    yield f"imports ({len(preview.imports)})"
    yield from (f"  line {one.line}: {printable(one.path)}" for one in preview.imports)
    yield f"calls ({len(preview.calls)})"
    yield from (f"  {_place(one)}: {_one_line(_call(one))}" for one in preview.calls)
    yield f"findings ({len(preview.findings)})"
    for one in preview.findings:
        yield f"  {_place(one)}: {one.certainty}: {one.kind}: {_one_line(one.message)}"
    if preview.left_out:
        yield f"and {preview.left_out} more that are not listed"


def _place(one: PreviewedCall | Finding) -> str:
    return f"{one.within} line {one.line}" if one.within else f"line {one.line}"


def _call(call: PreviewedCall) -> str:
    arguments = [f"{name}={value}" for name, value in call.arguments]
    return f"{call.server_id}.{call.tool}({', '.join(arguments + ([] if call.complete else ['…']))})"


def _one_line(text: str) -> str:
    return printable(text).replace("\n", "\\n")
