"""Whole applications in a test's own process: real sandboxes, real servers, environments that all test runs share.

Environments take a minute to build, so they are kept, outside pytest's folders, which are closed to sandbox uids. The
rest of a data folder belongs to one process of tests: a journal of all test runs would be read by ever slower tests.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moonpool.bootstrap import App, assemble
from moonpool.broker.approval import AutoApprover
from moonpool.broker.config import parse_config
from moonpool.runtime.runs import CodeRequest
from moonpool.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.broker.approval import Approver
    from moonpool.core.envelope import Envelope

SERVERS = Path(__file__).parent / "fixtures" / "servers"
_KEPT = Path(f"/var/tmp/moonpool-tests-{os.geteuid()}")


def fresh_data(folder: Path) -> Path:
    """Make `folder` a data folder with the environments of all test runs, and nothing else in it."""
    environments = _KEPT / "environments"
    environments.mkdir(parents=True, exist_ok=True)
    folder.mkdir(exist_ok=True)
    (folder / "environments").symlink_to(environments)
    return folder


def _own_data() -> Path:
    """This process's data folder; those of processes that are gone are removed."""
    for left in _KEPT.glob("p[0-9]*"):
        if not Path(f"/proc/{left.name[1:]}").exists():
            shutil.rmtree(left, ignore_errors=True)
    own = _KEPT / f"p{os.getpid()}"
    shutil.rmtree(own, ignore_errors=True)
    atexit.register(_remove_own, own)
    return fresh_data(own)


def _remove_own(own: Path) -> None:
    if own.name == f"p{os.getpid()}":  # not in a child
        shutil.rmtree(own, ignore_errors=True)


DATA = _own_data()


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
    **settings: Any,
) -> AsyncGenerator[App]:
    """An application over `servers` (name -> configuration entry)."""
    text = json.dumps({"mcpServers": servers or {}}).encode()
    config = parse_config(text, source="test", environ=os.environ) if servers else None
    chosen = Settings.load({}, **{"data_dir": DATA, "manifest_ttl_s": 0.001, **settings})
    async with assemble(
        chosen, config=config, approver=approver or AutoApprover(), environ=os.environ, serving=serving
    ) as app:
        yield app


async def run(app: App, code: str, **request: Any) -> Envelope:
    """Run code in a sandbox of its own."""
    return await app.runtime.run(CodeRequest(code=code.encode(), **request), app.ticket)
