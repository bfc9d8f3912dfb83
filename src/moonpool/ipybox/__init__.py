"""ipybox's interface on Moonpool: programs written for ipybox 0.9 import `moonpool.ipybox` instead.

Differences: docs/how-to/coming-from-ipybox.md.
"""

from moonpool.ipybox.client import MCPClient
from moonpool.ipybox.code_exec import CodeExecutionChunk, CodeExecutionError, CodeExecutionResult, CodeExecutor
from moonpool.ipybox.kernel_mgr.client import ExecutionError, ExecutionResult, KernelClient
from moonpool.ipybox.kernel_mgr.server import KernelGateway
from moonpool.ipybox.mcp_apigen import generate_mcp_sources
from moonpool.ipybox.tool_exec.approval.client import ApprovalClient, ApprovalRequest, ApprovalRequestor
from moonpool.ipybox.tool_exec.approval.server import ApprovalChannel
from moonpool.ipybox.tool_exec.client import ApprovalRejectedError, ApprovalTimeoutError, ToolRunner, ToolRunnerError
from moonpool.ipybox.tool_exec.server import ToolServer

__all__ = [
    "ApprovalChannel",
    "ApprovalClient",
    "ApprovalRejectedError",
    "ApprovalRequest",
    "ApprovalRequestor",
    "ApprovalTimeoutError",
    "CodeExecutionChunk",
    "CodeExecutionError",
    "CodeExecutionResult",
    "CodeExecutor",
    "ExecutionError",
    "ExecutionResult",
    "KernelClient",
    "KernelGateway",
    "MCPClient",
    "ToolRunner",
    "ToolRunnerError",
    "ToolServer",
    "generate_mcp_sources",
]
