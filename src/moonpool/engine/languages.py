"""Which languages this host can run, and what some need before their first use.

Python needs nothing. For the others bootstrap says what is absent, with the remedy, and how the tools of an older
Node.js come to be installed: once per machine, for the first code that is said to be TypeScript, or that has a network
and may use `fetch`, which waits for them. Other JavaScript never has anything installed.
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
    install_tools: Callable[[], Awaitable[object]] | None = None
    """None: nothing is needed, or all is there. Raises MoonpoolError."""
    typescript_needs_tools: bool = True
    _fetch_was_tried: bool = field(default=False, init=False)
    _installing: asyncio.Future[str] | None = field(default=None, init=False)

    async def prepare(self, request: CodeRequest, *, network: bool = False) -> None:
        """Wait for what the code needs. Raises LanguageUnavailableError; the next request tries again.

        `network`: it has one. That `fetch` cannot use it is said by `fetch` itself, if code calls it.
        """
        problem = self.absent.get(request.language, "")
        if not problem and request.typescript and self.typescript_needs_tools:
            problem = await self._installed()
        elif not problem and network and request.language == "node" and not self._fetch_was_tried:
            await self._installed()
            self._fetch_was_tried = True
        if problem:
            raise LanguageUnavailableError(problem)

    async def _installed(self) -> str:
        """Why the tools are not installed, or nothing."""
        if self.install_tools is None:
            return ""
        if self._installing is None:
            self._installing = asyncio.ensure_future(self._install(self.install_tools))
        return await asyncio.shield(self._installing)  # others may wait for it, too

    async def _install(self, install: Callable[[], Awaitable[object]]) -> str:
        """Why it could not be installed, or nothing."""
        try:
            await install()
        except MoonpoolError as error:
            return str(error)
        finally:
            self._installing = None
        self.install_tools = None
        return ""

    async def close(self) -> None:
        """Stop what is being installed; nothing half-installed is left."""
        if self._installing is not None:
            self._installing.cancel()
            await asyncio.gather(self._installing, return_exceptions=True)
