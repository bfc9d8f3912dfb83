"""Which languages this host can run, and what some need before their first use.

Python needs nothing. For the others bootstrap says what is absent, with the remedy, and how TypeScript's tools come to
be installed: once per machine, while the first Node code runs already. Only code that says by its name that it is
TypeScript waits for them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moonpool.core.errors import MoonpoolError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from moonpool.runtime.runs import CodeRequest

_TYPED = (".ts", ".mts", ".cts")


@dataclass(kw_only=True)
class Languages:
    """What `Runtime` knows of languages."""

    absent: Mapping[str, str] = field(default_factory=dict[str, str])
    """Language -> why it cannot be run here and what to do."""
    install_typescript: Callable[[], Awaitable[object]] | None = None
    """None: nothing is needed, or all is there."""
    _installing: asyncio.Future[object] | None = field(default=None, init=False)

    async def prepare(self, request: CodeRequest) -> None:
        """Begin what the code needs; wait for it where the code certainly does. Never raises for what is missing."""
        if request.language != "node" or self.install_typescript is None:
            return
        if self._installing is None:
            self._installing = asyncio.ensure_future(self.install_typescript())
        if request.name.lower().endswith(_TYPED):
            try:
                await asyncio.shield(self._installing)
            except MoonpoolError:
                pass  # the kernel says that there are no tools; plain JavaScript runs

    async def close(self) -> None:
        """Stop what is being installed; nothing half-installed is left."""
        if self._installing is not None:
            self._installing.cancel()
            await asyncio.gather(self._installing, return_exceptions=True)
