"""Group `languages`: a second language in a live session, the next execution in it, and a fresh one from a pool.

A language that this installation does not have, or whose runtime this machine lacks, is skipped with the reason.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.peers.programs import Program, open_spawner
from bench.sampling import Case, take_turns, with_skipped
from bench.world import ONE_PLUS_ONE, PACE_S, fill_pool, timed_execute, without_pool
from moonpool.core.errors import MoonpoolError
from moonpool.engine.code_request import CodeRequest

if TYPE_CHECKING:
    from bench.sampling import Measured
    from bench.sizes import Sizes
    from bench.world import World
    from moonpool.bootstrap import Tenant
    from moonpool.engine.runtime import Runtime

LANGUAGES = ("node", "bash")
SNIPPETS = {"node": b"globalThis.result = 1 + 1", "bash": b"echo $((1 + 1))"}
_PLAIN = {"node": ("node", "-e", "console.log(1+1)"), "bash": ("bash", "-c", "echo $((1 + 1))")}


async def missing_languages(app: Tenant) -> dict[str, str]:
    """Which of the languages cannot be used here, and why."""
    found: dict[str, str] = {}
    for language in LANGUAGES:
        try:
            envelope = await app.runtime.run(CodeRequest(code=SNIPPETS[language], language=language), app.caller_grant)
        except MoonpoolError as error:
            found[language] = str(error)
            continue
        if envelope.error is not None:
            found[language] = f"{envelope.error.type}: {envelope.error.message}"
        elif envelope.data != 2:
            found[language] = f"1 + 1 came to {envelope.data!r}"
    return found


async def measure(world: World, sizes: Sizes) -> Measured:
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(world.app("base"))
        missing = await missing_languages(app)
        skipped = {f"{name}.{row}": why for name, why in missing.items() for row in _rows_of(name)}
        unpooled = without_pool(app)
        stack.push_async_callback(unpooled.close)
        cases: list[Case] = []
        for language in LANGUAGES:
            if language not in missing:
                cases += _cases(language, app, unpooled, sizes)
        cases += await _plain_cases(stack, sizes)
        return with_skipped(await take_turns("languages", cases, rounds=sizes.rounds, warm_ups=sizes.warm_ups), skipped)


def _rows_of(language: str) -> tuple[str, ...]:
    return ("cold", "next", "pooled") if language == "node" else ("cold", "next")


def _cases(language: str, app: Tenant, unpooled: Runtime, sizes: Sizes) -> list[Case]:
    request = CodeRequest(code=SNIPPETS[language], language=language)
    kept = unpooled.session(app.caller_grant)

    async def cold(count: int) -> list[float]:
        samples: list[float] = []
        for _ in range(count):
            session = unpooled.session(app.caller_grant)
            await timed_execute(session, ONE_PLUS_ONE, 2)
            samples.append(await timed_execute(session, request, 2))
            await session.close()
        return samples

    async def live(count: int) -> list[float]:
        return [await timed_execute(kept, request, 2) for _ in range(count)]

    async def pooled(count: int) -> list[float]:
        samples: list[float] = []
        for _ in range(count):
            await fill_pool(app, language)
            await asyncio.sleep(PACE_S)
            started = time.perf_counter()
            envelope = await app.runtime.run(request, app.caller_grant)
            samples.append(1000 * (time.perf_counter() - started))
            assert envelope.data == 2, envelope.error
        await fill_pool(app, language)  # or it would be filled while others are measured
        return samples

    cases = [
        Case(name=f"{language}.cold", take=cold, per_round=max(1, sizes.fresh // 3)),
        Case(name=f"{language}.next", take=live, per_round=sizes.session),
    ]
    if language == "node":
        cases.append(Case(name="node.pooled", take=pooled, per_round=max(1, sizes.fresh // 3)))
    return cases


async def _plain_cases(stack: AsyncExitStack, sizes: Sizes) -> list[Case]:
    """The bare programs, without isolation."""
    spawner = await stack.enter_async_context(open_spawner(Path(sys.executable), {}, own_uid=True))
    cases: list[Case] = []
    for language, (name, *arguments) in _PLAIN.items():
        if (path := shutil.which(name)) is not None:
            program = Program(argv=(path, *arguments), env={"PATH": "/usr/bin:/bin"}, prints="2\n")
            take = partial(spawner.times_ms, program)
            cases.append(Case(name=f"{language}.plain", take=take, per_round=max(1, sizes.compared // 3)))
    return cases
