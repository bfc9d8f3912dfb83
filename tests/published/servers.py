"""Servers that others publish, at the locked versions, as entries of a configuration."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

from installs import NODE, node_packages, python_environment

_OWN = Path(sysconfig.get_path("scripts"))


def time_server(**block: Any) -> dict[str, Any]:
    return _entry(_OWN / "mcp-server-time", "--local-timezone=UTC", **block)


def git(repository: Path, **block: Any) -> dict[str, Any]:
    return _entry(_OWN / "mcp-server-git", "--repository", str(repository), **block)


def sqlite(database: Path, **block: Any) -> dict[str, Any]:
    """It stands on the SDK's 1.x line."""
    return _entry(python_environment("mcp1") / "mcp-server-sqlite", "--db-path", str(database), **block)


def fetch(*arguments: str, **block: Any) -> dict[str, Any]:
    return _entry(python_environment("servers") / "mcp-server-fetch", *arguments, **block)


def filesystem(folder: Path, **block: Any) -> dict[str, Any]:
    return _entry(*node_server("filesystem"), str(folder), **block)


def memory(file: Path, **block: Any) -> dict[str, Any]:
    return {**_entry(*node_server("memory"), **block), "env": {"MEMORY_FILE_PATH": str(file)}}


def everything(**block: Any) -> dict[str, Any]:
    """Only over stdio: over HTTP it listens on every interface, see `in_namespace`."""
    return _entry(*node_server("everything"), "stdio", **block)


def sequential_thinking(**block: Any) -> dict[str, Any]:
    return _entry(*node_server("sequential-thinking"), **block)


def node_server(name: str) -> tuple[str, str]:
    """The command of one of the servers in the package-lock.json beside this file."""
    script = node_packages(Path(__file__).parent) / f"@modelcontextprotocol/server-{name}/dist/index.js"
    return str(NODE / "node"), str(script)


def _entry(command: Path | str, *arguments: str, **block: Any) -> dict[str, Any]:
    """`block` is its `moonpool` block; by default everything is allowed."""
    return {"command": str(command), "args": list(arguments), "moonpool": block or {"trusted": True, "allow": ["*"]}}
