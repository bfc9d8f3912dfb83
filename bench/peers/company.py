"""The peers of one run: each is installed and started when first asked for, and kept until the run ends."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.peers.agents import open_agent
from bench.peers.venvs import PeerMissingError, peer_python

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from bench.peers.agents import Agent

ECHO = Path(__file__).parents[1] / "servers" / "echo.py"
_FAILED = "peer not available: "


@dataclass(kw_only=True)
class Company:
    """Agents by name. `wanted` False: every peer that must be installed is left out."""

    folder: Path
    stack: AsyncExitStack
    wanted: bool = True
    _agents: dict[str, Agent] = field(default_factory=dict["str", "Agent"])
    _missing: dict[str, str] = field(default_factory=dict[str, str])

    async def python(self, name: str) -> Path:
        """The interpreter of the peer's environment. Raises PeerMissingError."""
        if not self.wanted:
            raise PeerMissingError(f"{_FAILED}peers were left out (--no-peers)")
        if name in self._missing:
            raise PeerMissingError(self._missing[name])
        try:
            return await asyncio.to_thread(peer_python, name)
        except PeerMissingError as error:
            self._missing[name] = f"{_FAILED}{error}"
            raise PeerMissingError(self._missing[name]) from None

    async def agent(self, name: str) -> Agent:
        """The peer's agent, ready. Raises PeerMissingError."""
        if name not in self._agents:
            self._agents[name] = await self._open(name)
        return self._agents[name]

    async def _open(self, name: str) -> Agent:
        python = await self.python(name)
        place = self.folder / name
        place.mkdir(exist_ok=True)
        try:
            agent = await self.stack.enter_async_context(open_agent(name, python, place))
            if name != "codemode":
                await agent.ask("start", command=sys.executable, args=[str(ECHO)])
        except PeerMissingError as error:
            self._missing[name] = f"{_FAILED}{error}"
            raise PeerMissingError(self._missing[name]) from None
        return agent
