"""`python -m bench`: run the groups, print the table, write JSON. See README.md beside this file."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import cold, commands, executions, memory, rates, search, toolcalls, wrappers
from bench.machine import describe_machine
from bench.report import build_document, markdown_table, text_table, write_json, write_readme
from bench.sizes import FULL, QUICK, TINY
from bench.world import open_world, prepare_environment
from moonpool.core.errors import MoonpoolError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World
    from moonpool.environments.base import BuildProgress

GROUPS: dict[str, Callable[[World, Sizes], Awaitable[Measured]]] = {
    "executions": executions.measure,
    "tools": toolcalls.measure,
    "rate": rates.measure,
    "cold": cold.measure,
    "memory": memory.measure,
    "command": commands.measure,
    "wrappers": wrappers.measure,
    "search": search.measure,
}
_HERE = Path(__file__).parent
_NEEDS_NO_SANDBOX = {"wrappers", "search"}


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Moonpool beside its alternatives.")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="few samples: is anything badly off?")
    size.add_argument("--tiny", action="store_true", help="next to no samples: does the harness work?")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of every group, instead of the size's own")
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), metavar="GROUP", help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--env", choices=["base", "both"], default="both", help="base: leave the data environment out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="instead of bench/out/<date>.json")
    parser.add_argument("--from", type=Path, metavar="FILE", dest="source", help="measure nothing; show this JSON")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--write-readme", action="store_true", help="put the table into bench/README.md")
    options = parser.parse_args(arguments)
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


async def run_groups(options: argparse.Namespace) -> list[Measured]:
    sizes = QUICK if options.quick else TINY if options.tiny else FULL
    if options.rounds is not None:
        sizes = replace(sizes, rounds=options.rounds, slow_rounds=options.rounds)
    environments = ("base",) if options.env == "base" else ("base", "data")
    names = options.only or list(GROUPS)
    if not _NEEDS_NO_SANDBOX.issuperset(names):
        for environment in environments:
            await prepare_environment(environment, _show_progress)
    measured: list[Measured] = []
    with open_world(environments) as world:
        for name in names:
            print(f"bench: {name} …", file=sys.stderr, flush=True)
            measured.append(await GROUPS[name](world, sizes))
    return measured


def _show_progress(step: BuildProgress) -> None:
    print(f"bench: building {step.environment}: {step.done}/{step.total} {step.note}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    options = parse(given)
    if options.source is not None:
        document: dict[str, Any] = json.loads(options.source.read_text(encoding="utf-8"))
    else:
        machine = describe_machine()
        try:
            measured = asyncio.run(run_groups(options))
        except MoonpoolError as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
        document = build_document(measured, machine, " ".join(["python -m bench", *given]))
        stamp = str(machine["date"]).replace(" ", "-").replace(":", "")
        write_json(options.json or _HERE / "out" / f"{stamp}.json", document)
    print(markdown_table(document) if options.markdown else text_table(document))
    if options.write_readme:
        write_readme(_HERE / "README.md", document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
