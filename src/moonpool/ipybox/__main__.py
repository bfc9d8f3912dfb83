"""`python -m moonpool.ipybox`: mcpygen's commands, `apigen` and `toolserver`."""

from __future__ import annotations

import asyncio
import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from moonpool.core.errors import MoonpoolError
from moonpool.ipybox.mcp_apigen import generate_mcp_sources
from moonpool.ipybox.tool_exec.server import ToolServer


def main() -> None:
    """Run a command of the command line."""
    parser = ArgumentParser(prog="python -m moonpool.ipybox", description="mcpygen's commands")
    commands = parser.add_subparsers(dest="command", required=True)
    apigen = commands.add_parser("apigen", help="write the tools of an MCP server as a Python package")
    apigen.add_argument("--server-name", required=True, help="name of the package")
    apigen.add_argument("--server-params", required=True, help="how the server is reached, as JSON")
    apigen.add_argument("--root-dir", required=True, type=Path, help="the folder of the package")
    apigen.add_argument("--async", dest="async_api", action="store_true", help="`run` is awaited")
    toolserver = commands.add_parser("toolserver", help="run a tool server")
    toolserver.add_argument("--host", default="localhost")
    toolserver.add_argument("--port", type=int, default=8900)
    toolserver.add_argument("--log-level", default="INFO")
    given = parser.parse_args()
    try:
        asyncio.run(_apigen(given) if given.command == "apigen" else _serve(given))
    except (MoonpoolError, ValueError) as error:
        sys.exit(f"{parser.prog}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


async def _apigen(given: Namespace) -> None:
    params = json.loads(given.server_params)
    names = await generate_mcp_sources(given.server_name, params, given.root_dir, given.async_api)
    sys.stdout.write("".join(f"{name}\n" for name in names))


async def _serve(given: Namespace) -> None:
    async with ToolServer(given.host, given.port, log_level=given.log_level) as server:
        await server.join()


if __name__ == "__main__":
    main()
