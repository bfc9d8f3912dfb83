"""`moonpool stats --listen`: the data folder's figures for a collector, until a signal comes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

from moonpool.cli.config_choice import data_folder
from moonpool.cli.metrics_service import bound_listener, metrics_served
from moonpool.cli.stats_report import configured_tokens
from moonpool.runtime.metrics import metrics_of_records
from moonpool.settings import Settings
from moonpool.store.paths import journal_path

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.faces.http.loopback import Listener
    from moonpool.runtime.metrics import Metrics

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve_figures(address: str, config: Path | None, tail: int) -> None:
    """Serve until a signal comes. Raises ConfigError, ListenError. The configured tools are counted once, now."""
    with bound_listener(address, what="--listen") as listener:
        journal = journal_path(data_folder(Settings.load(os.environ)))
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
    sys.stderr.write(f"moonpool: {text}\n")
