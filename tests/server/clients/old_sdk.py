"""Talks to a stdio server with the official SDK of the 1.x line. `old_sdk.py CODE COMMAND ARGUMENT...`; prints JSON.

It answers every form with a name and every sampling request with a greeting, as a client with a user and a model.

Runs in an environment of its own (`requirements/mcp1.txt`).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import timedelta

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client


async def fill_in(context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
    del context, params
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def sample(context: object, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    del context, params
    return types.CreateMessageResult(
        role="assistant", content=types.TextContent(type="text", text="Hello"), model="m-1", stopReason="endTurn"
    )


async def main(code: str, command: str, *arguments: str) -> None:
    server = StdioServerParameters(command=command, args=list(arguments), env=dict(os.environ))
    answers = {"elicitation_callback": fill_in, "sampling_callback": sample}
    async with (
        stdio_client(server) as streams,
        ClientSession(*streams, timedelta(seconds=60), **answers) as session,
    ):
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
