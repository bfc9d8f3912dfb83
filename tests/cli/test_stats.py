"""`moonpool stats`: what is on record and what is configured, as one command reports it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from apps import fixture_server, open_app, run
from cli.console import moonpool, write_config
from docs.pages import read, rows
from exposition import parse, value
from moonpool.catalog.tokens import count_tokens, definition_text
from moonpool.core.json import JsonObject
from moonpool.features.usage.measures import SPANS, measure
from moonpool.features.usage.model import TokenFigures, ToolTokens
from moonpool.features.usage.statistics import FollowedJournal
from moonpool.server.http.exposition import Exposed, LimitFigures, PoolGauges, prometheus_text
from moonpool.server.mcp.context_usage import own_tools_text
from moonpool.server.mcp.definitions import TOOLS
from moonpool.store.journal_entries import Entry
from moonpool.store.journal_file import JournalFile
from moonpool.store.journal_reading import FileJournalReader
from waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


def end(run_id: str, **members: float) -> JsonObject:
    return {"kind": "execution_end", "run_id": run_id, **members}


def call(run_id: str, **members: float) -> JsonObject:
    return {"kind": "call_outcome", "run_id": run_id, **members}


def test_overhead_is_what_neither_code_nor_servers_nor_people_took() -> None:
    measures = measure(
        [
            call("a", duration_ms=100.0, upstream_ms=60.0, asked_ms=30.0),
            end("a", duration_ms=250.0, start_ms=20.0, code_ms=200.0),
        ]
    )
    assert measures.overhead.p95_ms == 60.0  # 50 around the code, 10 of the broker
    assert dict(measures.spans)["tool_call"].max_ms == 60.0


def test_records_of_older_versions_count_for_nothing() -> None:
    old: list[JsonObject] = [
        {"kind": "call_outcome", "run_id": "a", "duration_ms": 5},
        {"kind": "execution_end", "run_id": "a", "duration_ms": 9},
        {"kind": "disclosure", "shown": "nonsense"},
        {"kind": ["?"], "run_id": None},
    ]
    measures = measure(old)
    assert (measures.records, measures.overhead.count, measures.tokens.connections) == (4, 0, 0)


@pytest.mark.parametrize(("count", "expected"), [(1, 1.0), (20, 19.0), (100, 95.0)])
def test_percentiles_are_values_that_were_measured(count: int, expected: float) -> None:
    ends = [end(str(one), duration_ms=float(one + 1), start_ms=1.0 * one, code_ms=1.0) for one in range(1, count + 1)]
    assert measure(ends).overhead.p95_ms == expected


def test_the_exposition_has_one_type_per_metric_and_no_foreign_label() -> None:
    recorded = measure([{"kind": "disclosure", "shown": {'x"}\n': 5, "search": 7}, "upfront": 100}])
    text = prometheus_text(Exposed(version='1"\\\n', recorded=recorded))
    samples = parse(text)
    shown = {kind: value(samples, "moonpool_tokens_shown", of="recorded", kind=kind) for kind in ("search", "other")}
    assert shown == {"search": 7, "other": 5}
    assert value(samples, "moonpool_tokens_saved", of="recorded") == 88
    assert 'x"' not in text
    assert 'moonpool_build_info{version="1\\"\\\\\\n"} 1.0' in text
    assert 'moonpool_span_seconds{quantile="0.95",span="tool_call"} NaN' in text


def test_every_metric_is_on_the_reference_page() -> None:
    tools = ToolTokens(tools=1)
    pool = PoolGauges(alive=1, ready=1, opening=0, waiting=0, refused=0)
    exposed = Exposed(
        version="1",
        recorded=measure([]),
        configuration=tools,
        open=[TokenFigures()],
        pool=pool,
        limits=LimitFigures(open=0, refused={}),
    )
    real = {
        (name, ", ".join(sorted(key for key, _ in labels if key != "quantile")))
        for name, labels in parse(prometheus_text(exposed))
        if not name.endswith(("_seconds_sum", "_seconds_count"))
    }
    table = read("docs/reference/metrics.md").partition("## Who may ask")[0].partition("\n| where |")[0]
    assert {(row[0], row[1]) for row in rows(table)} == real


def test_a_followed_journal_reads_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "private" / "audit.sqlite3"
    followed = FollowedJournal(FileJournalReader(path), records=2)
    assert followed.measures().records == 0
    journal = JournalFile(path)

    def append(count: int) -> None:
        body = json.dumps(end("a", duration_ms=9.0, start_ms=2.0, code_ms=3.0)).encode()
        journal.append([Entry("execution_end", "a", body)] * count, durable=False)

    append(5)
    assert (followed.measures().records, followed.measures().overhead.count) == (2, 2)  # the newest
    append(3)
    assert (followed.measures().records, followed.measures().overhead.count) == (5, 5)
    journal.close()
    for left in path.parent.iterdir():
        left.rename(tmp_path / f"{left.name}-kept")
    journal = JournalFile(path)
    append(1)
    assert followed.measures().overhead.count == 6
    journal.close()


@pytest.mark.req("H-083", "H-086")
async def test_recorded_executions_are_reported_with_all_spans(tmp_path: Path) -> None:
    server = {"full": fixture_server("echo.py")}
    async with open_app(server) as app:
        code = "from servers.full import echo\nawait echo(word='a')"
        assert (await run(app, code)).error is None
        upfront = sum(
            count_tokens(definition_text(tool)) for tool in (await app.tool_registry.snapshot()).manifest.tools()
        )
    config = write_config(tmp_path, server)
    found = json.loads(moonpool(tmp_path, "stats", "--config", config, "--json").stdout)
    spans = found["sandbox_overhead"]["spans"]
    assert set(spans) == set(SPANS)
    assert all(spans[name]["count"] and spans[name]["p95_ms"] > 0 for name in ("runner_start", "execution"))
    assert spans["broker_call"]["count"]
    assert found["sandbox_overhead"]["per_execution"]["p95_ms"] > 0
    now = found["tokens"]["configuration"]
    assert now["upfront"] == upfront
    assert now["own_tools"] == count_tokens(own_tools_text(TOOLS))
    assert now["saved"] == upfront - now["manifest"] - now["own_tools"]  # with so few tools less than nothing


@pytest.mark.req("H-085")
async def test_a_changed_list_is_timed_from_notice_to_new_wrappers(tmp_path: Path) -> None:
    def serve(*names: str) -> None:
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
        (tmp_path / "tools.json").write_text(json.dumps({"tools": tools}), encoding="utf-8")

    serve("one")
    server = {"box": fixture_server("recorder.py", str(tmp_path / "tools.json"), str(tmp_path / "calls.jsonl"))}
    async with open_app(server) as app:
        before = await app.tool_registry.snapshot()
        serve("one", "two")
        app.tool_registry.refresh_soon("box")
        await until(lambda: app.tool_registry.current is not before)
    found = json.loads(moonpool(tmp_path, "stats", "--json", "--tail", "5").stdout)
    drift = found["drift_detection"]
    assert drift["to_new_wrappers"]["count"] == drift["unseen_at_most"]["count"] == 1
    assert drift["to_new_wrappers"]["p95_ms"] > 0


def test_with_nothing_to_count_there_is_no_empty_table(tmp_path: Path) -> None:
    ended = moonpool(tmp_path, "stats", "tokens", MOONPOOL_DATA_DIR=str(tmp_path / "new"))
    assert (ended.exit_code, ended.stdout) == (0, b"")
    assert "nothing to count" in ended.stderr


def test_tokens_alone_and_prometheus_come_from_the_same_command(tmp_path: Path) -> None:
    assert set(json.loads(moonpool(tmp_path, "stats", "tokens", "--json").stdout)) == {"configuration", "sessions"}
    assert moonpool(tmp_path, "stats", "tokens").exit_code == 0
    assert b"moonpool_sandbox_overhead_seconds_count" in moonpool(tmp_path, "stats", "--prometheus").stdout
