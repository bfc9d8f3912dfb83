"""Whole applications in a test's own process: real sandboxes, real servers, environments that a run's workers share.

The rest of a data folder belongs to one process of tests: a journal of all workers would be read by ever slower tests.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from commands.preloaded import import_host
from moonpool.bootstrap import Tenant, open_default_tenant
from moonpool.configuration.servers import parse_config
from moonpool.engine.code_request import CodeRequest
from moonpool.pipeline.approval import AutoApprover
from moonpool.settings import Settings
from run_folder import fresh_data, run_folder
from shared_backend import shared_backend

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.core.envelope import Envelope
    from moonpool.pipeline.approval import Approver

SERVERS = Path(__file__).parent / "fixtures" / "servers"


import_host()  # else the first test that needs a module pays for it, or waits for another's import
_OF_BACKENDS = {"data_dir", "backend", "limits", "environment", "zygotes_max", "zygotes_per_environment",
                "zygote_forks_max", "zygote_age_s_max", "zygote_idle_s"}  # fmt: skip
DATA = fresh_data(run_folder() / f"p{os.getpid()}")
"""This process's data folder. It goes with the run's."""


def fixture_server(name: str, *arguments: str, **block: Any) -> dict[str, Any]:
    """A fixture server's configuration entry. `block` is its `moonpool` block; by default all tools are allowed."""
    entry: dict[str, Any] = {"command": sys.executable, "args": [str(SERVERS / name), *arguments]}
    return {**entry, "moonpool": block or {"allow": ["*"]}}


@asynccontextmanager
async def open_app(
    servers: dict[str, dict[str, Any]] | None = None,
    *,
    approver: Approver | None = None,
    serving: bool = False,
    shared: bool = True,
    **settings: Any,
) -> AsyncGenerator[Tenant]:
    """An application over `servers` (name -> configuration entry).

    Its sandboxes are forked from zygotes that the tests of a worker share, unless it has settings of its own for them
    or is not `shared`.
    """
    text = json.dumps({"mcpServers": servers or {}}).encode()
    config = parse_config(text, source="test", environ=os.environ) if servers else None
    chosen = Settings.load({}, **{"data_dir": DATA, "manifest_ttl_s": 0.001, **settings})
    sharing = shared and not _OF_BACKENDS & settings.keys()
    async with (
        shared_backend(chosen, DATA) if sharing else nullcontext() as backend,
        open_default_tenant(
            chosen,
            config=config,
            approver=approver or AutoApprover(),
            environ=os.environ,
            serving=serving,
            backend=backend,
        ) as app,
    ):
        yield app


async def run(app: Tenant, code: str, **request: Any) -> Envelope:
    """Run code in a sandbox of its own."""
    return await app.runtime.run(CodeRequest(code=code.encode(), **request), app.caller_grant)
