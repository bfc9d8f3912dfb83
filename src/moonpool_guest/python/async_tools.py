"""`async_api=True` of ipybox's `generate_mcp_sources`: in such packages `run` is awaited, and `run_sync` blocks."""

import pkgutil
from importlib import import_module


def make_async(servers: "list[str]") -> None:
    """Let `mcptools` of these servers be awaited in this kernel."""
    for server in servers:
        try:
            package = import_module(f"mcptools.{server}")
        except ImportError:  # its tools could not be listed; whoever imports it is told
            continue
        for found in pkgutil.iter_modules(package.__path__):
            tool = import_module(f"{package.__name__}.{found.name}")
            tool.run, tool.run_sync = tool.run_async, tool.run  # pyright: ignore[reportAttributeAccessIssue]
