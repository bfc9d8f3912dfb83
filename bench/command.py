"""What every `python -m bench…` has in common: options, the run, the table, the JSON."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.machine import describe_machine, describe_versions
from bench.report import build_document, write_json
from bench.sizes import FULL, QUICK, TINY
from bench.suites import run_groups, sized
from bench.table import markdown_table, text_table, write_readme
from moonpool.core.errors import MoonpoolError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.suites import Measure

_HERE = Path(__file__).parent
LATEST: Final = _HERE / "results" / "latest.json"
_STDOUT: Final = Path("-")


def run_command(module: str, description: str, suite: Mapping[str, Measure], arguments: list[str] | None = None) -> int:
    """Parse, measure, print; returns the exit code. `module` is how the command is called."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parse(module, description, suite, given)
    failed: list[str] = []
    if options.source is not None:
        document: dict[str, Any] = json.loads(options.source.read_text(encoding="utf-8"))
    else:
        command = " ".join([f"python -m {module}", *given])
        try:
            document, failed = _measure(options, suite, command)
        except MoonpoolError as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
        if module == "bench" and not options.only and options.json in {None, _STDOUT}:
            write_json(LATEST, document)
    _show(options, document)
    if options.write_readme:
        write_readme(_HERE / "README.md", document)
    if failed:
        print(f"bench: failed: {', '.join(failed)}; see above", file=sys.stderr)
    return 1 if failed else 0


def _show(options: argparse.Namespace, document: dict[str, Any]) -> None:
    if options.json == _STDOUT:
        print(json.dumps(document, ensure_ascii=False))
        return
    if options.json is not None and options.source is None:
        write_json(options.json, document)
    print(markdown_table(document) if options.markdown else text_table(document))


def _parse(module: str, description: str, suite: Mapping[str, Measure], given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="few samples: is anything badly off?")
    size.add_argument("--tiny", action="store_true", help="next to no samples: does the harness work?")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of every group, instead of the size's own")
    parser.add_argument("--only", nargs="+", choices=list(suite), metavar="GROUP", help=f"of {', '.join(suite)}")
    parser.add_argument("--env", choices=["base", "both"], default="both", help="base: leave the data environment out")
    parser.add_argument("--no-peers", action="store_true", help="leave out what must be installed to be compared with")
    json_help = "write everything, samples included, to FILE, or without FILE to standard output instead of the table"
    parser.add_argument("--json", nargs="?", type=Path, const=_STDOUT, metavar="FILE", help=json_help)
    parser.add_argument("--from", type=Path, metavar="FILE", dest="source", help="measure nothing; show this JSON")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--write-readme", action="store_true", help="put the table into bench/README.md")
    options = parser.parse_args(given)
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def _measure(
    options: argparse.Namespace, suite: Mapping[str, Measure], command: str
) -> tuple[dict[str, Any], list[str]]:
    sizes = sized(QUICK if options.quick else TINY if options.tiny else FULL, options.rounds)
    machine, versions = describe_machine(), describe_versions()
    running = run_groups(
        suite,
        options.only or list(suite),
        sizes,
        environments=("base",) if options.env == "base" else ("base", "data"),
        peers=not options.no_peers,
    )
    ran = asyncio.run(running)
    return build_document(ran.measured, machine, versions, command), ran.failed
