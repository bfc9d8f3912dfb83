"""Moonpool: runs model-written code in a sealed sandbox whose only opening is a broker that calls MCP tools for it.

    async with moonpool.session(servers="servers.json") as s:
        print((await s.run("6*7")).data)

What is listed in `__all__`, `moonpool.sync`, and `moonpool.ipybox` for programs written for ipybox, are the public API;
every other module is private.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from moonpool.core.version import VERSION

if TYPE_CHECKING:
    from moonpool import sync
    from moonpool.core.envelope import ExecutionError
    from moonpool.core.errors import ConfigError, HostUnfitError, InputError, MoonpoolError
    from moonpool.engine.branches import Checkpoint, CheckpointError
    from moonpool.engine.files.errors import FileTransferError
    from moonpool.engine.files.local_files import LocalFileError
    from moonpool.engine.files.service import FileEntry
    from moonpool.engine.packages.model import InstalledPackage, InstalledPackages, PackageError
    from moonpool.features.approvals.model import ApprovalAnswerError
    from moonpool.network.rules import HeaderCredential, NetworkRuleError
    from moonpool.sandboxes.host_folders import FolderError
    from moonpool.sdk.checkpoints import Undone, UndoneCall
    from moonpool.sdk.events import (
        ApprovalRequest,
        CallEventsDropped,
        Output,
        Progress,
        ServerQuestion,
        ToolCallEnded,
        ToolCallStarted,
    )
    from moonpool.sdk.options import Limits, Network
    from moonpool.sdk.remote.errors import ServiceError, ServiceUnavailableError
    from moonpool.sdk.results import Display, ExecutionFailedError, File, Result, Usage
    from moonpool.sdk.service import Service, connect
    from moonpool.sdk.session import Event, Files, NetworkAccess, Session, Stream, Tools, run, session
    from moonpool.sdk.tool_search import Tool

__version__ = VERSION

_HOMES = {
    "ApprovalAnswerError": "features.approvals.model",
    "ApprovalRequest": "sdk.events",
    "CallEventsDropped": "sdk.events",
    "Checkpoint": "engine.branches",
    "CheckpointError": "engine.branches",
    "ConfigError": "core.errors",
    "Display": "sdk.results",
    "Event": "sdk.session",
    "ExecutionError": "core.envelope",
    "ExecutionFailedError": "sdk.results",
    "File": "sdk.results",
    "FileEntry": "engine.files.service",
    "FileTransferError": "engine.files.errors",
    "Files": "sdk.session",
    "FolderError": "sandboxes.host_folders",
    "HeaderCredential": "network.rules",
    "HostUnfitError": "core.errors",
    "InputError": "core.errors",
    "InstalledPackage": "engine.packages.model",
    "InstalledPackages": "engine.packages.model",
    "Limits": "sdk.options",
    "LocalFileError": "engine.files.local_files",
    "MoonpoolError": "core.errors",
    "Network": "sdk.options",
    "NetworkAccess": "sdk.session",
    "NetworkRuleError": "network.rules",
    "Output": "sdk.events",
    "PackageError": "engine.packages.model",
    "Progress": "sdk.events",
    "Result": "sdk.results",
    "ServerQuestion": "sdk.events",
    "Service": "sdk.service",
    "ServiceError": "sdk.remote.errors",
    "ServiceUnavailableError": "sdk.remote.errors",
    "Session": "sdk.session",
    "Stream": "sdk.session",
    "Tool": "sdk.tool_search",
    "ToolCallEnded": "sdk.events",
    "ToolCallStarted": "sdk.events",
    "Tools": "sdk.session",
    "Undone": "sdk.checkpoints",
    "UndoneCall": "sdk.checkpoints",
    "Usage": "sdk.results",
    "connect": "sdk.service",
    "run": "sdk.session",
    "session": "sdk.session",
}
"""Where each name lives; imported when it is first used, because a command of the command line needs none."""

__all__ = [
    "ApprovalAnswerError",
    "ApprovalRequest",
    "CallEventsDropped",
    "Checkpoint",
    "CheckpointError",
    "ConfigError",
    "Display",
    "Event",
    "ExecutionError",
    "ExecutionFailedError",
    "File",
    "FileEntry",
    "FileTransferError",
    "Files",
    "FolderError",
    "HeaderCredential",
    "HostUnfitError",
    "InputError",
    "InstalledPackage",
    "InstalledPackages",
    "Limits",
    "LocalFileError",
    "MoonpoolError",
    "Network",
    "NetworkAccess",
    "NetworkRuleError",
    "Output",
    "PackageError",
    "Progress",
    "Result",
    "ServerQuestion",
    "Service",
    "ServiceError",
    "ServiceUnavailableError",
    "Session",
    "Stream",
    "Tool",
    "ToolCallEnded",
    "ToolCallStarted",
    "Tools",
    "Undone",
    "UndoneCall",
    "Usage",
    "__version__",
    "connect",
    "run",
    "session",
    "sync",
]


def __getattr__(name: str) -> Any:
    if name == "sync":
        return import_module("moonpool.sync")
    if name not in _HOMES:
        raise AttributeError(f"module 'moonpool' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"moonpool.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
