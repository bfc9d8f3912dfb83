"""Runs examples of ipybox's documentation."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

_SERVER = Path(__file__).parents[1] / "fixtures" / "servers" / "stand_ins.py"
IMPORTS = """
import asyncio
import tempfile
from pathlib import Path
from ipybox import ApprovalRequest, CodeExecutionChunk, CodeExecutionError, CodeExecutionResult, CodeExecutor
from ipybox import generate_mcp_sources
from ipybox.kernel_mgr.client import ExecutionResult, KernelClient
from ipybox.kernel_mgr.server import KernelGateway
from ipybox.tool_exec.approval.client import ApprovalClient
from ipybox.tool_exec.client import ToolRunner
from ipybox.tool_exec.server import ToolServer
"""


def here(text: str) -> str:
    return dedent(text).replace("from ipybox", "from moonpool.ipybox")


async def run_example(text: str, **scope: Any) -> dict[str, Any]:
    """Run statements, some of which await."""
    code = compile(here(IMPORTS) + dedent(text), "<example>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await eval(code, scope)  # noqa: S307  our own text
    return scope


def stand_ins(folder: Path) -> str:
    """Make `npx`, `uvx` and `srt` there; a search path that begins with them."""
    folder.mkdir()
    for name in ("npx", "uvx", "srt"):
        program = folder / name
        program.write_text(f"#!/bin/sh\nexec {sys.executable} {_SERVER}\n", encoding="utf-8")
        program.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"
