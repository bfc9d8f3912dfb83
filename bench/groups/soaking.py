"""Group `soak`: mixed executions side by side, none of which may lose, swap or hang, beside prints of ipybox."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from bench.groups.languages import LANGUAGES, missing_languages
from bench.groups.toolcalls import read_config, write_config
from bench.peers.venvs import PeerMissingError
from bench.sampling import Watch
from bench.soaks.marathon import Marathon, processes_of_ours

if TYPE_CHECKING:
    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.soaks.marathon import SoakOutcome
    from bench.world import World

CONCURRENCY = 16
_PER = 10_000


async def measure(world: World, sizes: Sizes) -> Measured:
    watch = Watch("soak")
    outcome = await soak(world, sizes.soak_executions, CONCURRENCY)
    begun = outcome.executions + outcome.hung
    rounds = {
        "soak.lost": [[_PER * outcome.lost / begun]],
        "soak.swapped": [[_PER * outcome.swapped / begun]],
        "soak.hung": [[_PER * outcome.hung / begun]],
        "soak.rate": [[outcome.executions / outcome.seconds]],
        "soak.growth": [[outcome.growth_mb]],
    }
    notes = {"soak.lost": "; ".join([outcome.summary(), *outcome.faults[:5]])}
    skipped: dict[str, str] = {}
    try:
        agent = await world.peers.agent("ipybox")
        lost = (await agent.ask("outputs", count=sizes.peer_outputs))["lost"]
        rounds["ipybox.lost"] = [[_PER * lost / sizes.peer_outputs]]
        notes["ipybox.lost"] = f"{lost} of {sizes.peer_outputs} prints did not come back, one at a time"
    except PeerMissingError as error:
        skipped["ipybox.lost"] = str(error)
    return watch.measured(rounds, notes=notes, skipped=skipped)


async def soak(world: World, executions: int, concurrency: int, *, seed: int = 1) -> SoakOutcome:
    """A soak with the echo server, in `data` too where that is measured; counts what is left when all is closed."""
    before = processes_of_ours()
    async with AsyncExitStack() as stack:
        config = read_config(write_config(world.folder))
        base = await stack.enter_async_context(world.app("base", config=config))
        data = await stack.enter_async_context(world.app("data")) if "data" in world.environments else None
        languages = set(LANGUAGES) - (await missing_languages(base)).keys()
        marathon = Marathon(
            base=base,
            data=data,
            languages=languages,
            executions=executions,
            concurrency=concurrency,
            seed=seed,
            progress=_show,
        )
        outcome = await marathon.run()
    outcome.processes_left = len(processes_of_ours() - before)
    return outcome


def _show(outcome: SoakOutcome) -> None:
    if sys.stderr.isatty():
        print(f"\rbench: soak: {outcome.executions:,} done", end="", file=sys.stderr, flush=True)
