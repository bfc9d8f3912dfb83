"""Handshake and tools of the profile, fixed by what its clients know; the order of members, too. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from moonpool.core.manifest import ToolDefinition

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject

PROFILE: Final = "baponi"
VERSION: Final = "2025-11-25"
"""The revision of whoever names none that is known; older ones are echoed."""
BODY_BYTES_MAX: Final = 2 * 1024**2
"""Of a POST: code of 1 MiB does not fit JSON of the same size (X-13, J-019)."""
EXECUTE: Final = "sandbox_execute"
DOWNLOAD: Final = "files_download"

CAPABILITIES: Final[JsonObject] = {"tools": {"listChanged": False}}
SERVER_INFO: Final[JsonObject] = {"name": "baponi", "version": "0.1.0"}
INSTRUCTIONS: Final = (
    "Baponi is a sandboxed code execution platform for AI agents. Use sandbox_execute to run Python, Node.js, or Bash "
    "code. Use files_download to retrieve files produced by executions."
)

EXECUTE_TOOL: Final[JsonObject] = {
    "name": EXECUTE,
    "description": "Execute code in a sandboxed environment",
    "inputSchema": {
        "type": "object",
        "properties": {
            "code": {"type": "string", "description": "Code to execute"},
            "language": {
                "type": "string",
                "enum": ["python", "node", "bash"],
                "description": "Programming language. Defaults to the sandbox's configured language if omitted.",
            },
            "timeout": {
                "type": "integer",
                "minimum": 1,
                "maximum": 3600,
                "description": "Execution timeout in seconds. Defaults to sandbox configuration.",
            },
            "thread_id": {
                "type": "string",
                "description": (
                    "Persistent thread ID. Files written to /home/baponi persist across calls with the same thread_id."
                ),
            },
            "metadata": {
                "type": "object",
                "description": "Arbitrary key-value metadata attached to the execution record.",
            },
            "env_vars": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": (
                    "Environment variables injected into the sandbox. Keys must be uppercase letters, digits, and "
                    "underscores, starting with a letter."
                ),
            },
        },
        "required": ["code"],
    },
    "annotations": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False},
}
DOWNLOAD_TOOL: Final[JsonObject] = {
    "name": DOWNLOAD,
    "description": "Download file content from a thread or volume",
    "inputSchema": {
        "type": "object",
        "properties": {
            "source": {
                "type": "string",
                "enum": ["thread", "volume"],
                "description": "Where to read the file from.",
            },
            "id": {"type": "string", "description": "The thread_id or volume name."},
            "path": {"type": "string", "description": "File path relative to the storage root."},
        },
        "required": ["source", "id", "path"],
    },
    "annotations": {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True},
}
TOOLS: Final = {str(tool["name"]): tool for tool in (EXECUTE_TOOL, DOWNLOAD_TOOL)}
DEFINITIONS: Final = {name: ToolDefinition(server_id=PROFILE, name=name, raw=tool) for name, tool in TOOLS.items()}


def handshake(version: str) -> JsonObject:
    """The answer to `initialize` in a revision."""
    return cast(
        "JsonObject",
        {
            "protocolVersion": version,
            "capabilities": CAPABILITIES,
            "serverInfo": SERVER_INFO,
            "instructions": INSTRUCTIONS,
        },
    )
