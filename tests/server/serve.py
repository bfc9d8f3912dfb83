"""Starts the stdio face as `moonpool mcp` does: claim, assemble, serve. `serve.py CONFIG|- ask|auto|deny|queue`."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from moonpool.bootstrap import open_default_tenant
from moonpool.bootstrap.stores import open_default_queue
from moonpool.configuration.servers import load_config
from moonpool.engine import execution
from moonpool.pipeline.approval import AutoApprover, DenyApprover
from moonpool.server.mcp import server, stdio
from moonpool.server.mcp.approver import ElicitingApprover
from moonpool.server.mcp.stdio import claim_stdio, serve
from moonpool.settings import Settings


def stray() -> None:
    """Everything that must not reach the client."""
    print("stray print", flush=True)  # noqa: T201
    os.write(1, b"stray write\n")
    subprocess.run(["echo", "stray child"], check=True)
    sys.stdout.write("stray warning\n")
    logging.getLogger("stray").error("stray log")


async def main(config_path: str, approve: str) -> None:
    execution.GRACE_S = 20  # here nothing ignores an interrupt; a busy machine may take its time to obey
    server.LISTING_WAIT_S = float(os.environ.get("LISTING_WAIT_S", "60"))
    if grace := os.environ.get("EOF_GRACE_S"):
        stdio.EOF_GRACE_S = float(grace)
    wire = claim_stdio()
    if os.environ.get("STRAY_PRINTS"):
        asyncio.get_running_loop().call_later(0.1, stray)
    settings = Settings.load(os.environ)
    config = None if config_path == "-" else load_config(Path(config_path), os.environ)
    async with AsyncExitStack() as stack:
        approver = AutoApprover() if approve == "auto" else DenyApprover()
        if approve in {"ask", "queue"}:
            queue = await stack.enter_async_context(open_default_queue(settings, settings.data_dir, print, {}))
            approver = ElicitingApprover(queue) if approve == "ask" else queue
        eliciting = approver if isinstance(approver, ElicitingApprover) else None
        app = await stack.enter_async_context(
            open_default_tenant(settings, config=config, approver=approver, environ=os.environ, serving=True)
        )
        await serve(app, wire=wire, bindings=None if eliciting is None else eliciting.bindings)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
