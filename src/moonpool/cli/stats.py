"""`moonpool stats [tokens]`: measured savings and costs."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from moonpool.bootstrap import make_token_accounting
from moonpool.cli.commands import command, json_object
from moonpool.cli.config_choice import data_folder, journal_of, read_config
from moonpool.cli.metrics_service import bound_listener, metrics_served
from moonpool.cli.printer import print_json, print_table, remark
from moonpool.cli.tool_catalog import load_snapshot
from moonpool.core.errors import InputError
from moonpool.core.phrases import counted
from moonpool.core.version import VERSION
from moonpool.features.usage.statistics import read_measures
from moonpool.server.http.exposition import Exposed, prometheus_text
from moonpool.server.http.figures import metrics_of_records
from moonpool.settings import Settings

if TYPE_CHECKING:
    from moonpool.features.usage.measures import Measures, ShownTokens, Times
    from moonpool.features.usage.model import ToolTokens
    from moonpool.server.http.figures import Metrics
    from moonpool.server.http.loopback import Listener
    from moonpool.tools.snapshot import ToolSnapshot

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@command
@click.argument(
    "what",
    type=click.Choice(["all", "tokens"]),
    metavar="[WHAT]",
    default="all",
    help="`all` (default), or `tokens` alone.",
)
@click.option("--config", type=Path, metavar="FILE", help="Servers.")
@json_object
@click.option("--prometheus", is_flag=True, help="Prometheus text format, from records only.")
@click.option("--listen", metavar="ADDRESS:PORT", help="Serve /metrics there, on loopback, until a signal comes.")
@click.option(
    "--tail",
    type=click.IntRange(min=1),
    metavar="COUNT",
    default=100000,
    show_default=True,
    help="At most so many audit records, the newest.",
)
def stats(what: str, *, config: Path | None, as_json: bool, prometheus: bool, listen: str | None, tail: int) -> None:
    """Report tokens saved, the time to find changed tools, and the sandbox's overhead with its spans."""
    if listen is not None:
        if as_json or prometheus or what != "all":
            raise InputError(
                "--listen serves all figures in Prometheus format; leave out WHAT, --json and --prometheus"
            )
        serve_figures(listen, config, tail)
    elif prometheus:
        print_prometheus(tail)
    elif what == "tokens":
        print_tokens(config, tail, as_json=as_json)
    else:
        print_all(config, tail, as_json=as_json)


def print_tokens(config: Path | None, tail: int, *, as_json: bool) -> None:
    """Print the token counts."""
    baseline, measures = configured_tokens(config), _measures(tail)
    if as_json:
        now = baseline.to_json() if baseline else None
        print_json({"configuration": now, "sessions": measures.tokens.to_json()})
    else:
        _show_tokens(baseline, measures.tokens)


def print_all(config: Path | None, tail: int, *, as_json: bool) -> None:
    """Print all figures."""
    baseline, measures = configured_tokens(config), _measures(tail)
    if as_json:
        whole = measures.to_json()
        now = baseline.to_json() if baseline else None
        whole["tokens"] = {"configuration": now, "sessions": whole["tokens"]}
        print_json(whole)
        return
    _show_tokens(baseline, measures.tokens)
    rows = [
        ("drift: notice to new wrappers", measures.updates),
        ("drift: unseen at most", measures.unseen),
        ("sandbox overhead per execution", measures.overhead),
        *((f"  span: {name.replace('_', ' ')}", times) for name, times in measures.spans),
    ]
    click.echo("")
    print_table(("milliseconds", "count", "p50", "p95", "max"), (_cells(name, times) for name, times in rows))


def print_prometheus(tail: int) -> None:
    """Print metrics in Prometheus text format, for a textfile collector."""
    click.echo(prometheus_text(Exposed(version=VERSION, recorded=_measures(tail))), nl=False)


def _measures(tail: int) -> Measures:
    return read_measures(journal_of(Settings.load(os.environ)), records=tail)


def configured_tokens(path: Path | None) -> ToolTokens | None:
    """Token counts of the configured tools; None if nothing is configured."""
    config = read_config(path)
    if config is None:
        return None
    snapshot = load_snapshot(config, refresh=False)
    for problem in snapshot.problems.values():
        remark(f"{problem}; its tools are not counted")
    return asyncio.run(_counted(snapshot))


async def _counted(snapshot: ToolSnapshot) -> ToolTokens:
    settings = Settings.load(os.environ)
    accounting = make_token_accounting(settings, data_folder(settings))
    try:
        return await accounting.known(snapshot, within_s=None)
    finally:
        await accounting.close()


def _show_tokens(baseline: ToolTokens | None, sessions: ShownTokens) -> None:
    rows: list[tuple[str, ...]] = []
    if baseline is not None:
        rows.append((f"now, {counted(baseline.tools, 'tool')}: all upfront", f"{baseline.upfront:,}", ""))
        rows.append(_row("now: unasked instead", baseline.instead, baseline.upfront))
        rows += [("  manifest", f"{baseline.manifest:,}", ""), ("  own tools", f"{baseline.own_tools:,}", "")]
    else:
        remark("no servers are configured, so there is nothing to count now")
    if sessions.connections:
        rows.append((f"{counted(sessions.connections, 'connection')}: all upfront", f"{sessions.upfront:,}", ""))
        figures = sessions.figures
        rows.append(_row("shown instead", figures.spent, sessions.upfront))
        rows += [(f"  {kind.replace('_', ' ')}", f"{tokens:,}", "") for kind, tokens in sessions.by_kind]
        if sessions.executions:
            rows.append(("on demand per execution", f"{figures.on_demand_per_task:,.0f}", ""))
    else:
        remark("no connection of a model is on record yet")
    if rows:
        print_table(("tokens (o200k)", "count", "saved"), rows)


def _row(name: str, shown: int, upfront: int) -> tuple[str, ...]:
    saved = f"{upfront - shown:,} ({(upfront - shown) / upfront:.1%})" if upfront else ""
    return (name, f"{shown:,}", saved)


def _cells(name: str, times: Times) -> tuple[str, ...]:
    if not times.count:
        return (name, "0", "", "", "")
    return (name, str(times.count), *(f"{value:.1f}" for value in (times.p50_ms, times.p95_ms, times.max_ms)))


def serve_figures(address: str, config: Path | None, tail: int) -> None:
    """Serve until a signal arrives; the configured tools are counted once. Raises ConfigError, ListenError."""
    with bound_listener(address, what="--listen") as listener:
        journal = journal_of(Settings.load(os.environ))
        asyncio.run(_serve(listener, metrics_of_records(journal, configured_tokens(config), records=tail)))


async def _serve(listener: Listener, metrics: Metrics) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` ignores SIGHUP on purpose
            loop.add_signal_handler(number, stop.set)
    async with metrics_served(listener, metrics, _say):
        await stop.wait()


def _say(text: str) -> None:
    remark(f"{text}")
