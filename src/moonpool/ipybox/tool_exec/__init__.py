"""Tools for programs on the host, by ipybox's names."""

from moonpool.ipybox.tool_exec.client import ApprovalRejectedError, ApprovalTimeoutError, ToolRunner, ToolRunnerError

__all__ = ["ApprovalRejectedError", "ApprovalTimeoutError", "ToolRunner", "ToolRunnerError"]
