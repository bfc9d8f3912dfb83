"""What a probe may know of the service: `/healthz` and `/readyz`. They need no credential and say nothing else."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from starlette.responses import PlainTextResponse, Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ASKED_S: Final = 2.0
"""How long a check may take."""
FRESH_S: Final = 1.0
"""How long its outcome is told again, so that probes cost nothing, however many come."""
_log = logging.getLogger(__name__)

Check: TypeAlias = "Callable[[], Awaitable[None]]"
"""Raises when what it asks for is not there."""


@dataclass(slots=True)
class Readiness:
    """The phase of a service, and what it needs. It is ready once a sandbox of the default environment was opened."""

    phase: Literal["starting", "ready", "draining"] = "starting"
    checks: dict[str, Check] = field(default_factory=dict[str, "Check"])
    """By what a probe reads when it fails."""
    _asking: asyncio.Task[str] | None = None
    _asked_at: float = 0.0

    async def state(self) -> str:
        """`ready`, or the one reason why requests should not be sent here."""
        if self.phase != "ready" or not self.checks:
            return self.phase
        now = asyncio.get_running_loop().time()
        if self._asking is None or (self._asking.done() and now - self._asked_at >= FRESH_S):
            self._asking, self._asked_at = asyncio.create_task(self._ask()), now
        return await asyncio.shield(self._asking)

    async def _ask(self) -> str:
        for reason, check in self.checks.items():
            try:
                async with asyncio.timeout(ASKED_S):
                    await check()
            except Exception as error:  # noqa: BLE001  whatever it is, it is not there
                # SECURITY: it may name hosts and files; the log has them.
                _log.warning("not ready, %s: %s", reason, error or "no answer in time")
                return reason
        return "ready"


def healthz() -> Response:
    """The process answers."""
    return PlainTextResponse("ok\n", headers={"cache-control": "no-store"})


async def readyz(readiness: Readiness) -> Response:
    """Whether requests should be sent here."""
    state = await readiness.state()
    return PlainTextResponse(f"{state}\n", 200 if state == "ready" else 503, {"cache-control": "no-store"})
