"""A service under measurement: `moonpool serve` in a process of its own, and a client that costs little."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
import tempfile
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.world import link_environments

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from bench.world import World

PLAIN: Final = {"mcp-protocol-version": "2025-11-25"}
START_S: Final = 60.0
_LENGTH: Final = re.compile(rb"content-length: (\d+)")


class HttpClient:
    """One connection that is kept; bodies with a length or in chunks."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader, self._writer, self._host = reader, writer, host

    async def post(self, path: str, body: object, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """Status and decoded body."""
        status, chunks = await self._answer(self.encoded(path, body, headers))
        text = b"".join([chunk async for chunk in chunks])
        if text.startswith((b"event:", b"data:", b":", b"id:")):
            text = text.rpartition(b"data:")[2]
        return status, json.loads(text) if text.strip() else None

    def encoded(self, path: str, body: object, headers: dict[str, str] | None = None) -> bytes:
        """A whole request, to be sent again and again."""
        content = json.dumps(body).encode()
        sent = {
            "host": self._host,
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "content-length": str(len(content)),
            **(headers or {}),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + content

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Status and body, which is not decoded."""
        status, chunks = await self._answer(request)
        return status, b"".join([chunk async for chunk in chunks])

    async def lines(self, path: str, body: object) -> AsyncIterator[dict[str, Any]]:
        """Each line of an NDJSON answer as it comes."""
        status, chunks = await self._answer(self.encoded(path, body))
        assert status == 200, status
        rest = b""
        async for chunk in chunks:
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield json.loads(line)

    async def _answer(self, request: bytes) -> tuple[int, AsyncIterator[bytes]]:
        self._writer.write(request)
        answered = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        status = int(answered[9:12])
        found = _LENGTH.search(answered)
        return status, self._chunks(None if found is None else int(found[1]))

    async def _chunks(self, length: int | None) -> AsyncIterator[bytes]:
        if length is not None:
            yield await self._reader.readexactly(length)
            return
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readexactly(2)


@asynccontextmanager
async def connected(port: int) -> AsyncGenerator[HttpClient]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
    with closing(writer):
        yield HttpClient(reader, writer, f"127.0.0.1:{port}")


def call(code: str, **arguments: object) -> dict[str, Any]:
    """`execute_code` as JSON-RPC."""
    given = {"name": "execute_code", "arguments": {"code": code, **arguments}}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": given}


@asynccontextmanager
async def served(
    world: World, folder: str = "service", *, config: Path | None = None, database_url: str = ""
) -> AsyncGenerator[tuple[int, int]]:
    """Port and process of `moonpool serve` with its default limits, its data in `folder` of the world."""
    data = world.folder / folder
    data.mkdir(mode=0o755, exist_ok=True)
    link_environments(data)
    command = [str(Path(sys.executable).with_name("moonpool")), "serve", "--no-auth", "--port", "0", "--env", "base"]
    command += ["--data-dir", str(data)]
    command += [] if config is None else ["--config", str(config)]
    command += ["--database-url", database_url] if database_url else []
    environ = {"MOONPOOL_POOL_LOW": "2", **os.environ}
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            *command, stderr=asyncio.subprocess.PIPE, stdout=log, env=environ
        )
        assert process.stderr is not None
        try:
            async with asyncio.timeout(START_S):
                async for line in process.stderr:
                    if (found := re.search(rb"MCP at http://[^:]+:(\d+)", line)) is not None:
                        break
                else:
                    raise AssertionError("the service did not start")
            rest = asyncio.create_task(process.stderr.read())
            yield int(found[1]), process.pid
            rest.cancel()
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
                await process.wait()


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
