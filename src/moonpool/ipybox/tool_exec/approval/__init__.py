"""Approval of tool calls, by ipybox's names."""
