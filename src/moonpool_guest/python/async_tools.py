"""`async_api=True` of ipybox's `generate_mcp_sources`: in such packages `run` is awaited, and `run_sync` blocks."""

import pkgutil
from importlib import import_module

_awaited: "dict[str, None]" = {}  # servers


def make_async(servers: "list[str]") -> None:
    """Let `mcptools` of these servers be awaited in this kernel."""
    for server in servers:
        if server not in _awaited:
            _awaited[server] = None
            _change(server)


def renew() -> None:
    """Do it again: the modules are imported afresh."""
    for server in _awaited:
        _change(server)


def _change(server: str) -> None:
    try:
        package = import_module(f"mcptools.{server}")
    except ImportError:  # its tools could not be listed; whoever imports it is told
        return
    for found in pkgutil.iter_modules(package.__path__):
        tool = import_module(f"{package.__name__}.{found.name}")
        tool.run, tool.run_sync = tool.run_async, tool.run  # pyright: ignore[reportAttributeAccessIssue]
