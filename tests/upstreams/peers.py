"""Upstreams over every transport and the fixture servers behind them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moonpool.configuration.servers import McpConfig, parse_config
from moonpool.upstreams import open_upstreams
from moonpool.upstreams.process import StopTimes

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.upstreams import Upstream, Upstreams

SERVERS = Path(__file__).parent.parent / "fixtures" / "servers"
SECRET = "tok-4711-abcdef"
QUICK = StopTimes(grace_s=1.0, term_s=0.5, kill_s=2.0)


def configure(servers: dict[str, Any]) -> McpConfig:
    return parse_config(json.dumps({"mcpServers": servers}).encode(), source="test.json", environ={"TOKEN": SECRET})


def command(script: str, *arguments: object, **members: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(SERVERS / script), *map(str, arguments)], **members}


def raw(mode: str, *arguments: object, **block: Any) -> dict[str, Any]:
    return command("raw.py", mode, *arguments, env={"TOKEN": "${TOKEN}"}, moonpool=block)


@asynccontextmanager
async def upstream(entry: dict[str, Any], **options: Any) -> AsyncGenerator[Upstream]:
    async with upstreams({"srv": entry}, **options) as opened:
        found = opened.get("srv")
        assert found is not None
        yield found


@asynccontextmanager
async def upstreams(servers: dict[str, Any], **options: Any) -> AsyncGenerator[Upstreams]:
    settings: dict[str, Any] = {"environ": dict(os.environ), "stop_times": QUICK, **options}
    async with open_upstreams(configure(servers), **settings) as opened:
        yield opened


class HttpServer:
    """A fixture server over HTTP in its own process."""

    def __init__(self, script: str) -> None:
        self._script = script
        self._place = socket.socket()
        self.port = 0
        self.start()

    def start(self) -> None:
        arguments = [sys.executable, str(SERVERS / self._script), "--http", str(self.port)]
        self._process = subprocess.Popen(arguments, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self.port = json.loads(self._process.stdout.readline())["port"]
        self._place.close()

    def kill(self) -> None:
        self._place.close()
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def die(self) -> None:
        """Kill it; until `start` nobody else gets its port."""
        self.kill()
        self._place = socket.socket()
        self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._place.bind(("127.0.0.1", self.port))

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"
