"""`generate_mcp_sources`, where mcpygen has it."""

from moonpool.ipybox.mcp_apigen import generate_mcp_sources

__all__ = ["generate_mcp_sources"]
