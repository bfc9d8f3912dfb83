"""Starts the stdio face as `moonpool mcp` does: claim, assemble, serve. `serve.py CONFIG|- ask|auto|deny`."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path

from moonpool.bootstrap import assemble
from moonpool.broker.approval import AutoApprover, DenyApprover
from moonpool.broker.config import load_config
from moonpool.faces.mcp.approver import ElicitingApprover
from moonpool.faces.mcp.stdio import claim_stdio, serve
from moonpool.settings import Settings


def stray() -> None:
    """Everything that must not reach the client."""
    print("stray print", flush=True)  # noqa: T201
    os.write(1, b"stray write\n")
    subprocess.run(["echo", "stray child"], check=True)
    sys.stdout.write("stray warning\n")
    logging.getLogger("stray").error("stray log")


async def main(config_path: str, approve: str) -> None:
    wire = claim_stdio()
    if os.environ.get("STRAY_PRINTS"):
        asyncio.get_running_loop().call_later(0.1, stray)
    settings = Settings.load(os.environ)
    config = None if config_path == "-" else load_config(Path(config_path), os.environ)
    eliciting = ElicitingApprover() if approve == "ask" else None
    approver = eliciting or (AutoApprover() if approve == "auto" else DenyApprover())
    async with assemble(settings, config=config, approver=approver, environ=os.environ, serving=True) as app:
        await serve(app, wire=wire, approver=eliciting)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
