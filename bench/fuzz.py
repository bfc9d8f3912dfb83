"""`python -m bench.fuzz [--programs N] [--seed N]`: whatever the program, one line that parses (H-088).

Programs from a seed (`bench.soaks.programs`) are run as `moonpool run` runs them; the line that it would print is
looked at. Ends with 1 when one was wrong, and prints the programs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import TYPE_CHECKING

from bench.soaks.lines import fuzz_lines
from bench.soaks.programs import programs
from bench.world import open_world, prepare_environment

if TYPE_CHECKING:
    from bench.soaks.lines import FuzzOutcome

_FULL, _QUICK = 10_000, 300
_CONCURRENCY = 4


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz", description="One line that parses, whatever runs.")
    parser.add_argument("--programs", type=int, metavar="N", help=f"{_FULL:,} by default")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--concurrency", type=int, default=_CONCURRENCY, metavar="N")
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK} programs")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    count = options.programs or (_QUICK if options.quick else _FULL)
    outcome = asyncio.run(_run(options.seed, count, options.concurrency))
    print(json.dumps(outcome.to_json()) if options.json else "\n".join([outcome.summary(), *outcome.faults]))
    return int(outcome.fault_count > 0)


async def _run(seed: int, count: int, concurrency: int) -> FuzzOutcome:
    await prepare_environment("base")
    async with open_world(("base",), peers=False) as world, world.app("base") as app:
        return await fuzz_lines(app, programs(seed, count), concurrency=concurrency)


if __name__ == "__main__":
    sys.exit(main())
