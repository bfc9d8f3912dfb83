"""`python -m bench.soak [--executions N] [--concurrency N] [--seed N]`: mixed executions side by side.

Output, picture-sized bytes, plots, errors, exits, tool calls, deaths, kills and timeouts; every stream and result is
compared with its own nonce. Ends with 1 when one was lost, swapped or hung, or when a process is left.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.groups.soaking import CONCURRENCY, soak
from bench.machine import describe_machine
from bench.sizes import FULL, QUICK
from bench.world import open_world, prepare_environment

if TYPE_CHECKING:
    from bench.soaks.marathon import SoakOutcome


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description="Mixed executions side by side.")
    parser.add_argument("--executions", type=int, metavar="N", help=f"{FULL.soak_executions:,} by default")
    parser.add_argument("--concurrency", type=int, default=CONCURRENCY, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--env", choices=["base", "both"], default="both", help="base: no plots")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK.soak_executions} executions")
    parser.add_argument("--json", nargs="?", type=Path, const=Path("-"), metavar="FILE", help="to FILE or stdout")
    options = parser.parse_args(arguments)
    executions = options.executions or (QUICK if options.quick else FULL).soak_executions
    outcome = asyncio.run(_run(options, executions))
    document = {"machine": describe_machine(), **outcome.to_json()}
    if options.json is not None and options.json != Path("-"):
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(document) if options.json == Path("-") else _report(outcome))
    return int(bool(outcome.lost or outcome.swapped or outcome.hung or outcome.processes_left))


async def _run(options: argparse.Namespace, executions: int) -> SoakOutcome:
    environments = ("base",) if options.env == "base" else ("base", "data")
    for environment in environments:
        await prepare_environment(environment)
    async with open_world(environments, peers=False) as world:
        return await soak(world, executions, options.concurrency, seed=options.seed)


def _report(outcome: SoakOutcome) -> str:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in outcome.kinds.most_common())
    return "\n".join([outcome.summary(), kinds, *outcome.faults])


if __name__ == "__main__":
    sys.exit(main())
