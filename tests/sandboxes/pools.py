"""A backend that opens when a test lets it, and what pools are tested with."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

import waiting
from moonpool.sandboxes.base import ImageSpec, SandboxSpec
from moonpool.sandboxes.fake import FakeBackend
from moonpool.sandboxes.messages import Done, Execute, GuestError
from moonpool.sandboxes.pool import SandboxPool
from moonpool.sandboxes.pool_limits import PoolLimits

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from moonpool.sandboxes.base import Sandbox
    from moonpool.sandboxes.fake import FakeGuest, FakeSandbox


def spec_of(scope: str = "a", image: str = "base") -> SandboxSpec:
    """A spec for the fake; nothing of its image is there."""
    nowhere = Path("/nowhere")
    return SandboxSpec(
        image=ImageSpec(name=image, digest=f"sha256:{image}", python=nowhere, guest=nowhere), scope=scope
    )


@dataclass
class Clock:
    """Time that stands still unless a test moves it."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class GatedBackend:
    """Opens fake sandboxes, each as soon as the gate lets one through."""

    open_gate: bool = True
    name: str = "fake"
    begun: list[SandboxSpec] = field(default_factory=list)
    rehearsed: list[str] = field(default_factory=list)
    lacks_language: str = ""
    failure: Exception | None = None
    opening: int = 0
    opening_most: int = 0
    alive_most: int = 0
    opened: list[FakeSandbox] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._fake = FakeBackend(self._kernel)
        self._gate = asyncio.Semaphore(0)
        self._scopes: list[str] = []

    async def _kernel(self, guest: FakeGuest) -> None:
        """Answers rehearsals, as every kernel does."""
        while True:
            order, _ = await guest.receive()
            if isinstance(order, Execute):
                self.rehearsed.append(order.language)
                missing = order.language == self.lacks_language
                error = GuestError(type="LanguageUnavailable", message=f"no {order.language}") if missing else None
                guest.send(Done(run=order.run, status="error" if missing else "ok", error=error))

    def let(self, count: int) -> None:
        """Let so many through."""
        for _ in range(count):
            self._gate.release()

    def missing_features(self) -> list[str]:
        return []

    async def open_sandbox(self, spec: SandboxSpec) -> FakeSandbox:
        self.begun.append(spec)
        self.opening += 1
        self.opening_most = max(self.opening_most, self.opening)
        self.alive_most = max(self.alive_most, self.opening + self.alive.total())
        try:
            if self.open_gate:
                await anyio.lowlevel.checkpoint()
            else:
                await self._gate.acquire()
            if self.failure is not None:
                raise self.failure
            sandbox = await self._fake.open_sandbox(spec)
        finally:
            self.opening -= 1
        self.opened.append(sandbox)
        self._scopes.append(spec.scope)
        return sandbox

    @property
    def alive(self) -> Counter[str]:
        """Open sandboxes by scope."""
        return Counter(scope for box, scope in zip(self.opened, self._scopes, strict=True) if not box.has_ended)

    async def close_scope(self, scope: str) -> None:
        await self._fake.close_scope(scope)

    async def close(self) -> None:
        await self._fake.close()


@asynccontextmanager
async def pool_of(backend: Any, clock: Clock | None = None, **limits: Any) -> AsyncGenerator[SandboxPool]:
    """A pool that is closed at the end, and the backend with it."""
    given = {"opening_max": 4, "ready_low": 0, "ready_high": 0, **limits}
    pool = SandboxPool(backend, PoolLimits(**given), **({"clock": clock} if clock else {}))
    try:
        yield pool
    finally:
        with anyio.fail_after(20):
            await pool.close()
            await backend.close()


async def until(holds: Callable[[], object]) -> None:
    """Let others run until `holds`. Without a pause: what these tests wait for may hold for a moment only."""
    await waiting.until(holds, pause_s=0)


async def settled() -> None:
    """Let everything happen that needs no time."""
    for _ in range(50):
        await anyio.lowlevel.checkpoint()


async def served(pool: SandboxPool, spec: SandboxSpec, order: list[str], language: str = "python") -> None:
    """Acquire one, note for whom, and let it go."""
    sandbox = await pool.acquire(spec, language)
    order.append(spec.scope)
    await sandbox.close()


async def gone(sandbox: Sandbox) -> None:
    """Close, and let the pool see it."""
    await sandbox.close()
    await settled()
