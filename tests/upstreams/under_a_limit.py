"""Calls a tool of each server of a configuration, given as an argument, in 400 MiB beyond what a first call needs.

Prints a JSON list: for each server the code of the error, or `ok`.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from pathlib import Path

from moonpool.configuration.servers import parse_config
from moonpool.upstreams import UpstreamError, open_upstreams

ROOM_BYTES = 400 * 1024 * 1024


async def main(document: str) -> list[str]:
    config = parse_config(document.encode(), source="argument", environ={})
    protocol_versions = dict.fromkeys(config.ids, "2025-11-25")
    outcomes: list[str] = []
    async with open_upstreams(config, environ=dict(os.environ), known_versions=protocol_versions) as opened:
        for server_id in config.ids:
            server = opened.get(server_id)
            assert server is not None
            try:
                await server.call_tool("echo", {}, timeout_s=40)
                outcomes.append("ok")
            except UpstreamError as exc:
                outcomes.append(exc.code)
            if len(outcomes) == 1:
                pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
                size = pages * resource.getpagesize() + ROOM_BYTES
                resource.setrlimit(resource.RLIMIT_AS, (size, size))
    return outcomes


print(json.dumps(asyncio.run(main(sys.argv[1]))))  # noqa: T201  what it is for
