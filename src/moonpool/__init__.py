"""Moonpool: runs model-written code in a sealed sandbox whose only opening is a broker that calls MCP tools for it."""

__version__ = "0.1.0"
