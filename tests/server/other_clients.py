"""Clients that cannot live in our environment: an older SDK, the MCP Inspector."""

from __future__ import annotations

from pathlib import Path

from installs import NODE, ROOT, node_packages, python_environment

INSPECTOR = ROOT / "tests/inspector"


def old_sdk_python() -> Path:
    """The interpreter of an environment with `mcp` 1.x."""
    return python_environment("mcp1") / "python"


def inspector_command() -> list[str]:
    """The command that starts the Inspector's CLI."""
    return [str(NODE / "node"), str(node_packages(INSPECTOR) / ".bin/mcp-inspector"), "--cli"]
