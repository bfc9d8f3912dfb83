"""`python -m bench.breakdown`: where the time of one tool call and of one execution goes, as tables.

The functions of the product are timed where they stand, which costs each a few microseconds; totals are therefore a
little above those of `bench.latency`. `--write-readme` puts the tables into README.md beside this file.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.breakdowns import changes, execution, rules, toolcall
from bench.groups import toolcalls
from bench.groups.toolcalls import read_config, write_config
from bench.machine import describe_machine
from bench.sampling import median
from bench.sizes import QUICK
from bench.world import open_world, prepare_environment

if TYPE_CHECKING:
    from bench.world import World

_BEGIN, _END = "<!-- breakdown:begin -->", "<!-- breakdown:end -->"
_JUDGED = "writing, 200 rules, labels, budgets, asked"
_BESIDE = "tool call, in the same run"
_CHANGED = "changed tool list"
_ADDED, _RATIO = "more than the direct client, ms", "times the direct client"
_KINDS = {"pooled": "pool full", "unpooled": "no pool", "next": "next in a session"}

Tables = dict[str, dict[str, dict[str, float]]]  # table -> column -> step -> ms


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.breakdown", description="Where the time goes.")
    parser.add_argument("--rounds", type=int, default=40, metavar="N")
    parser.add_argument("--quick", action="store_true", help="5 rounds")
    parser.add_argument("--env", choices=["base", "both"], default="both", help="base: leave the data environment out")
    parser.add_argument("--no-peers", action="store_true", help="leave ipybox out")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--write-readme", action="store_true", help="put the tables into bench/README.md")
    options = parser.parse_args(arguments)
    environments = ("base",) if options.env == "base" else ("base", "data")
    machine = describe_machine()
    tables = asyncio.run(_measure(environments, 5 if options.quick else options.rounds, peers=not options.no_peers))
    text = "\n\n".join([_head(machine), *(_markdown(name, columns) for name, columns in tables.items())])
    print(json.dumps({"machine": machine, **tables}) if options.json else text)
    if options.write_readme:
        _write_readme(Path(__file__).parent / "README.md", text)
    return 0


async def _measure(environments: tuple[str, ...], rounds: int, *, peers: bool) -> Tables:
    for environment in environments:
        await prepare_environment(environment)
    tables: Tables = {"tool call": {}, **{f"execution, {kind}": {} for kind in _KINDS.values()}}
    async with open_world(environments, peers=peers) as world:
        config = read_config(write_config(world.folder))
        async with world.app("base", config=config) as app:
            for tool in ("read_only", "writing"):
                tables["tool call"][tool] = await toolcall.measure_calls(app, tool, rounds)
        async with world.app("base", config=config, policy=rules.write_policy(world.folder)) as app:
            await rules.answer_for_good(app, "writing")
            tables["tool call"][_JUDGED] = await toolcall.measure_calls(app, "writing", rounds)
        tables[_BESIDE] = await _beside(world, rounds)
        tables[_CHANGED] = {how: await changes.measure_changes(world, how, rounds) for how in changes.WAYS}
        for environment in environments:
            async with world.app(environment) as app:
                for kind, title in _KINDS.items():
                    found = await execution.measure_executions(app, kind, rounds)
                    tables[f"execution, {title}"][environment] = found
    return tables


async def _beside(world: World, rounds: int) -> dict[str, dict[str, float]]:
    """The same server called in the same run by guest code, by a direct client and, where it is there, by ipybox."""
    measured = await toolcalls.measure(world, replace(QUICK, rounds=rounds))
    found = {name: median([median(taken) for taken in batches]) for name, batches in measured.rounds.items() if batches}
    direct = found["tool.direct"]
    titles = {"tool.direct": "direct", "tool.guest.read_only": "read_only", "tool.guest.writing": "writing"}
    titles["ipybox.tool"] = "ipybox"
    return {
        title: {_ADDED: found[name] - direct, _RATIO: found[name] / direct, toolcall.TOTAL: found[name]}
        for name, title in titles.items()
        if name in found
    }


def _head(machine: dict[str, str | int | float]) -> str:
    return f"{machine['date']} · commit {machine['commit']} · {machine['cores']} cores, {machine['cpu']} · medians, ms"


def _markdown(name: str, columns: dict[str, dict[str, float]]) -> str:
    """Steps as rows, in the order of the fullest column; what a column lacks is empty. Totals come last."""
    totals = {toolcall.TOTAL, execution.TOTAL}
    fullest_first = sorted(columns.values(), key=len, reverse=True)
    steps = list(dict.fromkeys(step for column in fullest_first for step in column))
    steps.sort(key=lambda step: step in totals)
    lines = [f"| {name} | {' | '.join(columns)} |", f"| --- |{' --- |' * len(columns)}"]
    for step in steps:
        cells = [f"{column[step]:.3f}" if step in column else "" for column in columns.values()]
        lines.append(f"| {f'**{step}**' if step in totals else step} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _write_readme(path: Path, text: str) -> None:
    whole = path.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise SystemExit(f"{path} lacks the marks {_BEGIN} and {_END}")
    path.write_text(f"{before}{_BEGIN}\n{text}\n{_END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
