# ruff: noqa: T201  an example prints
"""An application with Moonpool inside it: it runs code, shows what it prints, and answers what it asks.

The time server's tools are asked about. This application allows conversions of times to Tokyo by a rule of its own and
refuses everything else; a real one would show the question to somebody, and pass on who that was (`by`).
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import moonpool

CODE = """
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
    async with moonpool.session(servers=SERVERS) as session:
        async for event in session.stream(CODE):
            match event:
                case moonpool.Output():
                    print("printed:", event.text.strip())
                case moonpool.ApprovalRequest():
                    await answer(event)
                case moonpool.Result():
                    print("ended:", event.data, f"after {event.tool_calls} calls")


async def answer(request: moonpool.ApprovalRequest) -> None:
    """Decide by the arguments; known secrets in them are blanked."""
    if request.arguments is not None and request.arguments.get("target_timezone") == "Asia/Tokyo":
        print(f"allowed: {request}")
        await request.approve()
    else:
        print(f"refused: {request}")
        await request.deny("only Tokyo is of interest here")


if __name__ == "__main__":
    asyncio.run(main())
