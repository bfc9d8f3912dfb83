"""Assembling the application behind `moonpool mcp`. The protocol itself: `moonpool.faces.mcp.stdio`."""

from __future__ import annotations

import os
import sys
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from moonpool.bootstrap import open_default_tenant, sandbox_uid
from moonpool.broker.approval import AutoApprover, DenyApprover
from moonpool.broker.phrases import on_one_line
from moonpool.cli.approvers import Approve, open_queue
from moonpool.cli.config_choice import data_folder, read_config
from moonpool.cli.metrics_service import bound_listener, metrics_served
from moonpool.environments.progress import stderr_progress
from moonpool.environments.resolve import is_built
from moonpool.faces.mcp.approver import ElicitingApprover
from moonpool.faces.mcp.stdio import claim_stdio, serve
from moonpool.runtime.metrics import metrics_of_runtime
from moonpool.runtime.missing_tools import telling_missing_tools
from moonpool.settings import Settings
from moonpool.store.paths import journal_path

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    from moonpool.broker.approval import Approver


async def serve_stdio(config_path: Path | None, choice: Approve, **overrides: Path | str | None) -> None:
    """Serve one client until it leaves; `overrides` are settings. Raises MoonpoolError before anything was written."""
    wire = claim_stdio()  # first, so that no upstream and no sandbox ever holds the client's descriptors
    settings = await settings_of_service(overrides)
    config = read_config(config_path)
    with ExitStack() as bound:
        listener = None
        if where := settings.metrics_listen:
            listener = bound.enter_context(bound_listener(where, what="metrics_listen"))
        progress = bound.enter_context(stderr_progress())
        async with (
            _answering(choice, settings) as approver,
            open_default_tenant(
                settings,
                config=config,
                approver=approver,
                environ=os.environ,
                serving=True,
                progress=progress,
            ) as app,
        ):
            await app.prove()
            async with AsyncExitStack() as stack:
                if listener is not None:
                    live = metrics_of_runtime(app.runtime, journal_path(app.data))
                    await stack.enter_async_context(metrics_served(listener, live, _report))
                await stack.enter_async_context(telling_missing_tools(app.toolbox, _report))
                bindings = approver.bindings if isinstance(approver, ElicitingApprover) else None
                await serve(app, wire=wire, bindings=bindings)


async def settings_of_service(overrides: Mapping[str, Path | str | None]) -> Settings:
    """With the environment `data` where it has been built, unless somebody chose one: models write pandas unasked."""
    settings = Settings.load(os.environ, **overrides)
    chosen = overrides.get("environment") is not None or "MOONPOOL_ENVIRONMENT" in os.environ
    if chosen or not await is_built("data", root=data_folder(settings) / "environments", uid=sandbox_uid()):
        return settings
    return replace(settings, environment="data")


@asynccontextmanager
async def _answering(choice: Approve, settings: Settings) -> AsyncGenerator[Approver]:
    """Who answers: the client's user, or the queue where the client cannot ask its user."""
    if choice in {Approve.ASK, Approve.QUEUE}:
        async with open_queue(settings, _report) as queue:
            yield ElicitingApprover(queue) if choice is Approve.ASK else queue
    elif choice is Approve.AUTO:
        yield AutoApprover()
    else:
        yield DenyApprover(_report, why="--approve deny was given")


def _report(text: str) -> None:
    sys.stderr.write(f"moonpool: {on_one_line(text)}\n")
