"""The run of a soak: workers that execute side by side, half of the time in sessions that they keep for a while.

INVARIANT: every execution that was begun is counted once: as right, lost, swapped or hung.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from bench.processes import descendants, descriptor_count, resident_megabytes
from bench.soaks.kinds import choose, faults
from moonpool.engine.code_request import CodeRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from bench.soaks.kinds import Wanted
    from moonpool.bootstrap import Tenant
    from moonpool.core.envelope import Envelope
    from moonpool.engine.sessions import Session

HUNG_S = 120.0
_SESSION_EXECUTIONS = 25
_FAULTS_KEPT = 20
_SAMPLES = 100


@dataclass(slots=True, kw_only=True)
class SoakOutcome:
    """What a soak came to."""

    executions: int = 0
    lost: int = 0
    swapped: int = 0
    hung: int = 0
    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])
    resident_mb: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])  # executions done -> MB
    descriptors: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    processes_left: int = 0

    @property
    def growth_mb(self) -> float:
        """What the host's resident memory gained over the second half, by a straight line through it."""
        points = self.resident_mb[len(self.resident_mb) // 2 :]
        if len(points) < 3:
            return 0.0
        return _slope(points) * (points[-1][0] - points[0][0])

    def to_json(self) -> dict[str, Any]:
        """Every figure. (`asdict` would make a counter of pairs of a counter.)"""
        figures = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**figures, "kinds": dict(self.kinds), "growth_mb": self.growth_mb}

    def summary(self) -> str:
        """One line."""
        memory = [megabytes for _, megabytes in self.resident_mb] or [0.0]
        open_files = [count for _, count in self.descriptors] or [0]
        return (
            f"{self.executions:,} executions in {self.seconds:.0f} s ({self.executions / (self.seconds or 1):.0f}/s): "
            f"{self.lost} lost, {self.swapped} swapped, {self.hung} hung; host {memory[0]:.0f} MB first, "
            f"{memory[-1]:.0f} MB last, {self.growth_mb:+.1f} MB over the second half; "
            f"descriptors {open_files[0]} first, {open_files[-1]} last; {self.processes_left} processes left"
        )


def _slope(points: list[tuple[int, float]]) -> float:
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


@dataclass(slots=True, kw_only=True)
class Marathon:
    """One soak over one application for `base` and perhaps one for `data`."""

    base: Tenant
    data: Tenant | None = None
    languages: Collection[str] = ()  # beside Python
    executions: int
    concurrency: int
    seed: int = 1
    progress: Callable[[SoakOutcome], None] = lambda _: None
    outcome: SoakOutcome = field(default_factory=SoakOutcome)
    _begun: int = 0

    async def run(self) -> SoakOutcome:
        """Run all executions; afterwards every session is closed."""
        chance = random.Random(self.seed)  # noqa: S311  the same mix for the same seed
        started = time.perf_counter()
        await asyncio.gather(*(self._work(random.Random(chance.random())) for _ in range(self.concurrency)))  # noqa: S311
        self.outcome.seconds = time.perf_counter() - started
        self._sample()
        return self.outcome

    async def _work(self, chance: random.Random) -> None:
        having = {*self.languages, *(["data"] if self.data is not None else [])}
        session, used = self.base.runtime.session(self.base.caller_grant), 0
        try:
            while self._begun < self.executions:
                self._begun += 1
                wanted = choose(chance, having=having)
                in_session = not wanted.in_data and chance.random() < 0.5
                await self._one(wanted, session if in_session else None)
                used += in_session
                if used >= _SESSION_EXECUTIONS:
                    await session.close()
                    session, used = self.base.runtime.session(self.base.caller_grant), 0
        finally:
            await session.close()

    async def _one(self, wanted: Wanted, session: Session | None) -> None:
        app = self.data if wanted.in_data and self.data is not None else self.base
        one_shot = session is None
        session = session or app.runtime.session(app.caller_grant, final=True)
        try:
            async with asyncio.timeout(HUNG_S):
                envelope = await _execute(session, wanted)
        except TimeoutError:
            self.outcome.hung += 1
            self._keep(f"{wanted.kind}: hung")
        else:
            self._count(wanted, envelope)
        finally:
            if one_shot:
                await session.close()

    def _count(self, wanted: Wanted, envelope: Envelope) -> None:
        found = faults(wanted, envelope)
        self.outcome.executions += 1
        self.outcome.kinds[wanted.kind] += 1
        self.outcome.lost += bool(found.lost)
        self.outcome.swapped += bool(found.swapped)
        for fault in (*found.lost, *found.swapped):
            self._keep(fault)
        if self.outcome.executions % max(1, self.executions // _SAMPLES) == 0:
            self._sample()
            self.progress(self.outcome)

    def _keep(self, fault: str) -> None:
        if len(self.outcome.faults) < _FAULTS_KEPT:
            self.outcome.faults.append(fault)

    def _sample(self) -> None:
        done = self.outcome.executions
        self.outcome.resident_mb.append((done, resident_megabytes()))
        self.outcome.descriptors.append((done, descriptor_count()))


async def _execute(session: Session, wanted: Wanted) -> Envelope:
    """Run it; kill it as the host does once both streams have spoken, where that is wanted."""
    heard = {1: b"", 2: b""}

    def hear(stream: int, data: bytes) -> None:
        heard[stream] += data
        if all(wanted.nonce.encode() in text for text in heard.values()):
            session.interrupt(at_once=True)

    request = CodeRequest(
        code=wanted.code.encode(),
        timeout_s=wanted.timeout_s,
        language=wanted.language,
        observer=hear if wanted.kill else None,
    )
    return await session.execute(request)


def processes_of_ours() -> set[int]:
    """Everything that this process has started and that is still there."""
    return set(descendants(os.getpid()))
