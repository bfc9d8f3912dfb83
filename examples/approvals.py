# ruff: noqa: T201  an example prints
"""An application with Moonpool inside it: it runs code, shows what it prints, and answers what it asks.

The time server's tools are asked about. This application allows the conversions of times to Tokyo by a rule of its own
and refuses everything else; a real one would show the question to somebody, and pass on who that was (`by`).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from moonpool.bootstrap import open_default_tenant
from moonpool.configuration.servers import parse_config
from moonpool.engine.code_request import CodeRequest
from moonpool.engine.events import OutputChunk, RunEnded, run_events
from moonpool.features.approvals.events import ApprovalQuestion, EventApprover
from moonpool.settings import Settings

CODE = b"""
from servers.time import convert_time
print("asking twice", flush=True)
result = {}
for zone in ("Asia/Tokyo", "Europe/Paris"):
    call = await convert_time(source_timezone="UTC", time="09:00", target_timezone=zone)
    result[zone] = call.data["target"]["datetime"][11:16] if call.ok else call.error["message"]
"""
SERVERS = {
    "time": {"command": str(Path(sys.executable).with_name("mcp-server-time")), "moonpool": {"ask": ["*"]}},
}


async def main() -> None:
    """Run the code once."""
    config = parse_config(json.dumps({"mcpServers": SERVERS}).encode(), source="example", environ=os.environ)
    approver = EventApprover()
    settings = Settings.load(os.environ)
    async with open_default_tenant(settings, config=config, approver=approver, environ=os.environ) as app:
        session = app.runtime.session(app.caller_grant)
        async with run_events(session.execute, CodeRequest(code=CODE), approver) as events:
            async for event in events:
                match event:
                    case OutputChunk(data=data):
                        print("printed:", data.decode().strip())
                    case ApprovalQuestion():
                        await answer(event)
                    case RunEnded(envelope=envelope):
                        print("ended:", json.dumps(envelope.data), envelope.approval_state)
        await session.close()


async def answer(question: ApprovalQuestion) -> None:
    """Decide by all of the arguments (`arguments` may be cut); known secrets in them are blanked."""
    request = question.request
    if json.loads(request.whole or request.arguments).get("target_timezone") == "Asia/Tokyo":
        print(f"allowed: {request.server_id}.{request.tool_name}")
        await question.approve()
    else:
        print(f"refused: {request.server_id}.{request.tool_name}")
        await question.deny("only Tokyo is of interest here")


if __name__ == "__main__":
    asyncio.run(main())
