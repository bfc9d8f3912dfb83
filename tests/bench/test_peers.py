"""A peer that fails is a row that says so; the rest of its group goes on."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest
from bench.peers import agents, venvs
from bench.peers.company import Company
from bench.peers.venvs import PeerMissingError, peer_python
from bench.sampling import Case, take_turns

pytestmark = pytest.mark.anyio
AGENTS = Path(agents.__file__).parent
WORK = """\
import asyncio, sys
sys.path.insert(0, {agents!r})
from agent_lines import serve

async def twice(order):
    print("noise")
    return {{"seconds": [order["count"] / 500]}}

async def fail(order):
    raise ValueError("broken")

asyncio.run(serve({{"twice": twice, "fail": fail, "stop": twice}}))
"""


async def test_an_agent_answers_orders_and_its_failures_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made_agent.py").write_text(WORK.format(agents=str(AGENTS)), encoding="utf-8")
    monkeypatch.setattr(agents, "_AGENTS", tmp_path)
    with anyio.fail_after(60):
        async with agents.open_agent("made", Path(sys.executable), tmp_path) as agent:
            assert await agent.times_ms("twice", count=1) == [2.0]
            with pytest.raises(PeerMissingError, match="made failed at 'fail': ValueError: broken"):
                await agent.ask("fail")
    assert agent.process.returncode is not None
    assert "noise" in (tmp_path / "log").read_text(encoding="utf-8")


async def test_an_agent_that_ends_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone_agent.py").write_text("", encoding="utf-8")
    monkeypatch.setattr(agents, "_AGENTS", tmp_path)
    with anyio.fail_after(60):
        async with agents.open_agent("gone", Path(sys.executable), tmp_path) as agent:
            with pytest.raises(PeerMissingError, match="gone"):
                await agent.ask("execute")


async def test_a_case_whose_peer_fails_leaves_the_turns_and_is_named() -> None:
    async def ours(count: int) -> list[float]:
        return [1.0] * count

    async def theirs(count: int) -> list[float]:
        raise PeerMissingError("it fell over")

    cases = [Case(name="ours", take=ours), Case(name="theirs", take=theirs)]
    measured = await take_turns("group", cases, rounds=3)

    assert measured.samples("ours") == [1.0] * 3
    assert "theirs" not in measured.rounds
    assert measured.skipped == {"theirs": "it fell over"}


def test_an_environment_that_cannot_be_installed_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(venvs, "_ROOT", tmp_path)
    with pytest.raises(PeerMissingError, match="there is no bench-nobody"):
        peer_python("nobody")


async def test_peers_that_are_not_wanted_are_not_installed(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        company = Company(folder=tmp_path, stack=stack, wanted=False)
        with pytest.raises(PeerMissingError, match="peer not available: peers were left out"):
            await company.agent("ipybox")
