"""Drives a peer's agent: a process in the peer's environment that takes one JSON order a line and answers each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.peers.venvs import PeerMissingError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_AGENTS = Path(__file__).parent
_ANSWER_S = 120.0
_END_S = 15.0
_LINE_BYTES_MAX = 64 * 1024 * 1024
_KEPT = ("PATH", "LANG", "TMPDIR")


@dataclass(frozen=True, slots=True)
class Agent:
    """A peer at work."""

    name: str
    process: asyncio.subprocess.Process

    async def ask(self, kind: str, **order: Any) -> dict[str, Any]:
        """Give an order and wait for its answer. Raises PeerMissingError when the peer fails: its row then says so."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps({"do": kind, **order}).encode() + b"\n")
            async with asyncio.timeout(_ANSWER_S):
                line = await self.process.stdout.readline()
        except TimeoutError:
            raise PeerMissingError(f"{self.name} did not answer {kind!r} within {_ANSWER_S:g} s") from None
        except (OSError, ValueError) as error:
            raise PeerMissingError(f"{self.name} cannot be asked {kind!r}: {error}") from None
        if not line:
            raise PeerMissingError(f"{self.name} ended at {kind!r}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerMissingError(f"{self.name} failed at {kind!r}: {answer['error']}")
        return answer

    async def times_ms(self, kind: str, **order: Any) -> list[float]:
        """The seconds that the agent measured, in ms."""
        return [1000 * seconds for seconds in (await self.ask(kind, **order))["seconds"]]


@asynccontextmanager
async def open_agent(name: str, python: Path, place: Path) -> AsyncGenerator[Agent]:
    """Start `NAME_agent.py` with `place` as its home; afterwards it and everything it started is gone."""
    with (place / "log").open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *(str(python), str(_AGENTS / f"{name}_agent.py"), str(place)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env={"HOME": str(place), **{key: os.environ[key] for key in _KEPT if key in os.environ}},
            limit=_LINE_BYTES_MAX,
            start_new_session=True,
        )
    agent = Agent(name, process)
    try:
        yield agent
    finally:
        with contextlib.suppress(PeerMissingError):
            await agent.ask("stop")
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(OSError):  # it has ended already
            await process.stdin.wait_closed()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its own group: nothing but what it started
        await process.wait()
