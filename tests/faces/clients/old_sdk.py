"""Talks to a stdio server with the official SDK of the 1.x line. `old_sdk.py CODE COMMAND ARGUMENT...`; prints JSON.

Runs in an environment of its own (`requirements/mcp1.txt`).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import timedelta

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(code: str, command: str, *arguments: str) -> None:
    server = StdioServerParameters(command=command, args=list(arguments), env=dict(os.environ))
    async with stdio_client(server) as streams, ClientSession(*streams, timedelta(seconds=60)) as session:
        handshake = await session.initialize()
        tools = await session.list_tools()
        result = await session.call_tool("execute_code", {"code": code})
        await session.send_ping()
    print(  # noqa: T201
        json.dumps(
            {
                "version": handshake.protocolVersion,
                "instructions": handshake.instructions,
                "tools": [tool.name for tool in tools.tools],
                "structured": result.structuredContent,
                "text": result.content[0].text,
                "is_error": result.isError,
            }
        )
    )


asyncio.run(main(*sys.argv[1:]))
