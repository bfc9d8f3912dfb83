"""Figures for people and programs: from the audit journal, and of the tools that are configured now."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

import typer

import moonpool
from moonpool.bootstrap import make_token_book
from moonpool.cli.config_choice import data_folder, read_config
from moonpool.cli.tables import print_table
from moonpool.cli.tool_catalog import load_snapshot
from moonpool.core.exposition import Exposed, prometheus_text
from moonpool.runtime.stats import read_measures
from moonpool.settings import Settings
from moonpool.store.paths import journal_path

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.core.measures import Measures, ShownTokens, Times
    from moonpool.core.token_figures import ToolTokens
    from moonpool.runtime.tool_snapshot import ToolSnapshot


def print_tokens(config: Path | None, tail: int, *, as_json: bool) -> None:
    """The token figures."""
    baseline, measures = configured_tokens(config), _measures(tail)
    if as_json:
        now = baseline.to_json() if baseline else None
        typer.echo(json.dumps({"configuration": now, "sessions": measures.tokens.to_json()}))
    else:
        _show_tokens(baseline, measures.tokens)


def print_all(config: Path | None, tail: int, *, as_json: bool) -> None:
    """Every figure."""
    baseline, measures = configured_tokens(config), _measures(tail)
    if as_json:
        whole = measures.to_json()
        now = baseline.to_json() if baseline else None
        whole["tokens"] = {"configuration": now, "sessions": whole["tokens"]}
        typer.echo(json.dumps(whole))
        return
    _show_tokens(baseline, measures.tokens)
    rows = [
        ("drift: notice to new wrappers", measures.updates),
        ("drift: unseen at most", measures.unseen),
        ("sandbox overhead per execution", measures.overhead),
        *((f"  span: {name.replace('_', ' ')}", times) for name, times in measures.spans),
    ]
    typer.echo("")
    print_table(("milliseconds", "count", "p50", "p95", "max"), (_cells(name, times) for name, times in rows))


def print_prometheus(tail: int) -> None:
    """For a collector of text files."""
    typer.echo(prometheus_text(Exposed(version=moonpool.__version__, recorded=_measures(tail))), nl=False)


def _measures(tail: int) -> Measures:
    return read_measures(journal_path(data_folder(Settings.load(os.environ))), records=tail)


def configured_tokens(path: Path | None) -> ToolTokens | None:
    """What the configured tools cost to show; None where nothing is configured."""
    config = read_config(path)
    if config is None:
        return None
    snapshot = load_snapshot(config, refresh=False)
    for problem in snapshot.problems.values():
        typer.echo(f"moonpool: {problem}; its tools are not counted", err=True)
    return asyncio.run(_counted(snapshot))


async def _counted(snapshot: ToolSnapshot) -> ToolTokens:
    settings = Settings.load(os.environ)
    book = make_token_book(settings, data_folder(settings))
    try:
        return await book.known(snapshot, within_s=None)
    finally:
        await book.close()


def _show_tokens(baseline: ToolTokens | None, sessions: ShownTokens) -> None:
    rows: list[tuple[str, ...]] = []
    if baseline is not None:
        rows.append((f"now, {baseline.tools} tools: all upfront", f"{baseline.upfront:,}", ""))
        rows.append(_row("now: unasked instead", baseline.instead, baseline.upfront))
        rows += [("  manifest", f"{baseline.manifest:,}", ""), ("  own tools", f"{baseline.own_tools:,}", "")]
    else:
        typer.echo("moonpool: no servers are configured, so there is nothing to count now", err=True)
    if sessions.connections:
        word = "connection" if sessions.connections == 1 else "connections"
        rows.append((f"{sessions.connections} {word}: all upfront", f"{sessions.upfront:,}", ""))
        figures = sessions.figures
        rows.append(_row("shown instead", figures.spent, sessions.upfront))
        rows += [(f"  {kind.replace('_', ' ')}", f"{tokens:,}", "") for kind, tokens in sessions.by_kind]
        if sessions.executions:
            rows.append(("on demand per execution", f"{figures.on_demand_per_task:,.0f}", ""))
    else:
        typer.echo("moonpool: no connection of a model is on record yet", err=True)
    if rows:
        print_table(("tokens (o200k)", "count", "saved"), rows)


def _row(name: str, shown: int, upfront: int) -> tuple[str, ...]:
    saved = f"{upfront - shown:,} ({(upfront - shown) / upfront:.1%})" if upfront else ""
    return (name, f"{shown:,}", saved)


def _cells(name: str, times: Times) -> tuple[str, ...]:
    if not times.count:
        return (name, "0", "", "", "")
    return (name, str(times.count), *(f"{value:.1f}" for value in (times.p50_ms, times.p95_ms, times.max_ms)))
