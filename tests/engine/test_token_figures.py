"""Token figures in every envelope, whoever asked: the same as `stats tokens`, counted once, never flattering."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from apps import DATA, fixture_server, open_app, run
from cli.console import moonpool, run_code, write_config
from moonpool.bootstrap.replays import replay_run
from moonpool.catalog.tokens import count_tokens, definition_text
from moonpool.core.manifest import Manifest, ServerListing, ToolDefinition
from moonpool.engine.code_request import CodeRequest
from moonpool.features.usage import token_accounting as token_book
from moonpool.features.usage.model import TokenFigures, ToolTokens
from moonpool.features.usage.table import TokenCountStore
from moonpool.features.usage.token_accounting import TokenAccounting, Unasked
from moonpool.replay.service import ReplayRequest
from moonpool.settings import Settings
from moonpool.tools.snapshot import ToolSnapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.anyio

NOTHING = {
    "tools": 0,
    "upfront": 0,
    "manifest": 0,
    "spent": 0,
    "by_kind": {},
    "on_demand_per_task": 0.0,
    "saved": 0,
    "reduction": 0.0,
}


def snapshot_of(*names: str, server: str = "one", about: str = "") -> ToolSnapshot:
    tools = tuple(
        ToolDefinition(server_id=server, name=name, raw={"name": name, "description": f"Does {name}."})
        for name in names
    )
    manifest = Manifest(servers=(ServerListing(server_id=server, tools=tools, description=about),))
    return ToolSnapshot(manifest=manifest, tree=Path("/nowhere"), digest="sha256:0")


def upfront_of(snapshot: ToolSnapshot) -> int:
    return sum(count_tokens(definition_text(tool)) for tool in snapshot.manifest.tools())


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that a tokenizer was given."""
    texts: list[str] = []

    def count(text: str) -> int:
        texts.append(text)
        return count_tokens(text)

    monkeypatch.setattr(token_book, "_count", count)
    return texts


def book_in(folder: Path) -> TokenAccounting:
    return TokenAccounting(
        store=TokenCountStore(folder),
        unasked=lambda snapshot: Unasked(manifest=f"{len(snapshot.manifest.servers)} server", own_tools="ours"),
    )


async def test_every_definition_is_counted_once_in_a_process_and_once_on_a_disk(
    tmp_path: Path, counted: list[str]
) -> None:
    first, more = snapshot_of("a", "b"), snapshot_of("a", "b", "c")
    accounting = book_in(tmp_path)
    known = await accounting.known(first)
    assert known == replace(known, tools=2, upfront=upfront_of(first), uncounted=0)
    assert (known.manifest, known.own_tools) == (count_tokens("1 server"), count_tokens("ours"))
    assert len(counted) == 4
    assert (await accounting.known(more)).upfront == upfront_of(more)
    assert len(counted) == 5
    again = book_in(tmp_path)
    assert await again.known(snapshot_of("a", "b")) == known
    assert (await again.known(snapshot_of("c", "b"))).tools == 2  # a new list of known tools
    assert len(counted) == 5


async def test_what_a_server_says_of_itself_counts_too(tmp_path: Path) -> None:
    accounting = TokenAccounting(
        store=TokenCountStore(tmp_path),
        unasked=lambda snapshot: Unasked(manifest=snapshot.manifest.servers[0].description),
    )
    short = await accounting.known(snapshot_of("a", about="Few."))
    long = await accounting.known(snapshot_of("a", about="Many more words than that, and half a character: \ud83d."))
    assert short.manifest < long.manifest


async def test_a_damaged_store_is_counted_anew(tmp_path: Path, counted: list[str]) -> None:
    await book_in(tmp_path).known(snapshot_of("a"))
    for path in tmp_path.iterdir():
        path.write_bytes(b"damaged")
    assert (await book_in(tmp_path).known(snapshot_of("a"))).upfront == upfront_of(snapshot_of("a"))
    assert len(counted) == 6


async def test_what_is_not_counted_in_time_is_left_out_and_said(tmp_path: Path, counted: list[str]) -> None:
    accounting, snapshot = book_in(tmp_path), snapshot_of("a", "b")
    early = accounting.now(snapshot)
    assert early.to_json() | {"uncounted": 2, "upfront": 0} == early.to_json()
    assert TokenFigures(tools=early).to_json()["uncounted"] == 2
    assert "uncounted" not in (await accounting.figures(snapshot, None)).to_json()
    await accounting.close()


@pytest.mark.parametrize(
    ("by_kind", "spent", "saved", "per_task"),
    [
        pytest.param({}, 0, 0, 0.0, id="nobody was shown anything, so nobody was spared anything"),
        pytest.param({"manifest": 100, "own_tools": 500}, 600, 400, 0.0, id="unasked"),
        pytest.param({"manifest": 100, "search": 300, "definition": 100}, 500, 500, 200.0, id="discovery"),
        pytest.param({"search": 3_000}, 3_000, -2_000, 1_500.0, id="a catalog that cost more"),
    ],
)
def test_saved_is_what_was_saved(by_kind: Mapping[str, int], spent: int, saved: int, per_task: float) -> None:
    tools = ToolTokens(tools=5, upfront=1_000, manifest=90, own_tools=499)
    figures = TokenFigures(tools=tools, by_kind=by_kind, executions=2)
    assert (figures.spent, figures.saved, figures.on_demand_per_task) == (spent, saved, per_task)
    assert figures.to_json()["reduction"] == saved / 1_000


@pytest.mark.slow
@pytest.mark.req("H-083")
async def test_runs_sessions_rehearsals_failures_and_replays_carry_the_figures_of_stats(tmp_path: Path) -> None:
    server = {"full": fixture_server("echo.py")}
    config = write_config(tmp_path, server)
    async with open_app(server) as app:
        code = "from servers.full import text\nresult = (await text(text='a')).data"
        one_shot = await run(app, code)
        session = app.runtime.session(app.caller_grant)
        in_session = await session.execute(CodeRequest(code=b"result = 1"))
        failed = await session.execute(CodeRequest(code=b"1 / 0"))
        await session.close()
        never = app.runtime.session(app.caller_grant)
        starting = asyncio.ensure_future(never.execute(CodeRequest(code=b"result = 1")))
        await asyncio.sleep(0)
        never.interrupt()
        cancelled = await starting
        await never.close()
        rehearsed = await run(app, code, dry_run=True)
    settings = Settings.load({}, data_dir=DATA)
    replayed = await replay_run(settings, ReplayRequest(run_id=one_shot.run_id), environ={})
    now = json.loads(moonpool(tmp_path, "stats", "tokens", "--config", config, "--json").stdout)["configuration"]
    printed = run_code(tmp_path, code, "--config", config, PYTHONPROFILEIMPORTTIME="1")
    named = run_code(tmp_path, "result = 1", "--session", "tokens", "--config", config)
    moonpool(tmp_path, "session", "close", "tokens")

    assert one_shot.ok, one_shot.error
    expected: dict[str, Any] = {
        "tools": now["tools"],
        "upfront": now["upfront"],
        "manifest": now["manifest"],
        "spent": 0,
        "by_kind": {},
        "on_demand_per_task": 0.0,
        "saved": 0,
        "reduction": 0.0,
    }
    assert now["tools"] > 3
    assert now["upfront"] > now["manifest"] > 0
    shown = [envelope.metrics["tokens"] for envelope in (one_shot, in_session, failed, rehearsed)]
    assert shown == [expected] * 4
    assert cancelled.error is not None
    assert (cancelled.error.type, set(json.loads(json.dumps(cancelled.metrics["tokens"])))) == (
        "Cancelled",
        set(expected),
    )
    assert json.loads(json.dumps(replayed.envelope))["result"]["metrics"]["tokens"] == expected
    assert [ended.result["metrics"]["tokens"] for ended in (printed, named)] == [expected] * 2
    imported = {line.rpartition(" ")[2] for line in printed.stderr.splitlines()}
    assert "moonpool.features.usage.token_accounting" in imported
    assert not imported & {
        "rs_bpe.bpe",
        "moonpool.catalog.tokens",
        "moonpool.server",
        "h11",
        "moonpool.net.loopback_addresses",
    }


async def test_without_servers_every_figure_is_0(tmp_path: Path) -> None:
    async with open_app() as app:
        assert (await run(app, "result = 1")).metrics["tokens"] == NOTHING
