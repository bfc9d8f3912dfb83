"""ipybox's interface on Moonpool: programs written for ipybox 0.9 import `moonpool.ipybox` instead.

Differences: docs/how-to/coming-from-ipybox.md.
"""

from moonpool.ipybox.code_exec import CodeExecutionChunk, CodeExecutionError, CodeExecutionResult, CodeExecutor
from moonpool.ipybox.mcp_apigen import generate_mcp_sources
from moonpool.ipybox.tool_exec.approval.client import ApprovalRequest

__all__ = [
    "ApprovalRequest",
    "CodeExecutionChunk",
    "CodeExecutionError",
    "CodeExecutionResult",
    "CodeExecutor",
    "generate_mcp_sources",
]
