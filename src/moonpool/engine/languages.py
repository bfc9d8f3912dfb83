"""Which languages this host can run, and what some need before their first use.

Python needs nothing. For the others bootstrap says what is absent, with the remedy, and how TypeScript's tools come to
be installed: once per machine, for the first code that is said to be TypeScript, which waits for them. JavaScript never
has anything installed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moonpool.core.errors import MoonpoolError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from moonpool.engine.code_request import CodeRequest


class LanguageUnavailableError(Exception):
    """This host cannot run the code's language, or not now. The message says why and what to do."""


@dataclass(kw_only=True)
class Languages:
    """What `Runtime` knows of languages."""

    absent: Mapping[str, str] = field(default_factory=dict[str, str])
    """Language -> why it cannot be run here and what to do."""
    install_typescript: Callable[[], Awaitable[object]] | None = None
    """None: nothing is needed, or all is there. Raises MoonpoolError."""
    _installing: asyncio.Future[str] | None = field(default=None, init=False)

    async def prepare(self, request: CodeRequest) -> None:
        """Wait for what the code needs. Raises LanguageUnavailableError; the next request tries again."""
        problem = self.absent.get(request.language, "")
        if not problem and request.typescript and self.install_typescript is not None:
            if self._installing is None:
                self._installing = asyncio.ensure_future(self._install(self.install_typescript))
            problem = await asyncio.shield(self._installing)  # others may wait for it, too
        if problem:
            raise LanguageUnavailableError(problem)

    async def _install(self, install: Callable[[], Awaitable[object]]) -> str:
        """Why it could not be installed, or nothing."""
        try:
            await install()
        except MoonpoolError as error:
            return str(error)
        finally:
            self._installing = None
        self.install_typescript = None
        return ""

    async def close(self) -> None:
        """Stop what is being installed; nothing half-installed is left."""
        if self._installing is not None:
            self._installing.cancel()
            await asyncio.gather(self._installing, return_exceptions=True)
