"""`generate_mcp_sources`: the tools of an MCP server as a Python package."""

from __future__ import annotations

import asyncio
import keyword
import os
import secrets
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from moonpool.core.errors import ConfigError, InputError
from moonpool.core.naming import name_server_modules
from moonpool.ipybox.options import with_env_file
from moonpool.ipybox.registered_servers import register
from moonpool.sandboxes.host_folders import link_of_code
from moonpool.sdk.hosted_session import EventTypes, HostedSession, in_a_thread
from moonpool.sdk.options import SessionOptions
from moonpool.sdk.session_handle import SessionHandle
from moonpool.wrappers.names import name_manifest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from moonpool.configuration.servers import McpConfig
    from moonpool.tools.snapshot import ToolSnapshot


_CLIENT: Final = """\
\"\"\"Where calls of this package go: to the broker in a sandbox, else to a tool server. Generated; do not edit.\"\"\"

import sys

if "moonpool_guest.python.kernel" in sys.modules:
    from client.mcp_client import Model, ToolRunnerError, alias, extension, pack, run_tool, run_tool_sync
else:
    from moonpool.ipybox.generated import Model, ToolRunnerError, alias, extension, pack, run_tool, run_tool_sync

__all__ = ["Model", "ToolRunnerError", "alias", "extension", "pack", "run_tool", "run_tool_sync"]
"""


async def generate_mcp_sources(
    server_name: str, server_params: dict[str, Any], root_dir: Path, async_api: bool = False
) -> list[str]:
    """Write the package `root_dir/server_name`, with a module for each tool of a server, and return their names.

    `server_params` has `command`, `args`, `env` of a server that is started, or `url`, `headers`, `type` of one that is
    reached by HTTP. `${VAR}` in it is replaced by the environment's value, or that in the file `.env`, each time the
    server is started; only the placeholder is kept. Code of executors that start afterwards imports the package and
    calls the server; `reset` of one that is open lets it know the server too. A package of this name is replaced when
    the new one is complete. Imported outside a sandbox, it calls the server through a `ToolServer`. With `async_api`
    its `run` is awaited. Raises ValueError for a name that cannot be a package, InputError, and ConfigError when the
    server cannot be reached.
    """
    check_name(server_name)
    options = _OneServer(servers={server_name: server_params}, apart=object())
    session = SessionHandle(options, EventTypes(object, object), lambda: in_a_thread)
    try:
        snapshot = await session.call(lambda hosted: _listed(hosted, server_name)).wait()
        names = name_manifest(snapshot.manifest).servers[server_name]
        await asyncio.to_thread(write_package, snapshot, server_name, server_params, root_dir, async_api=async_api)
    finally:
        if (closing := session.close()) is not None:
            await closing.wait()
    return [tool.module for tool in names.tools.values()]


class _OneServer(SessionOptions):
    def config(self, environ: Mapping[str, str]) -> McpConfig | None:
        return super().config(with_env_file(environ))


async def _listed(hosted: HostedSession, server_name: str) -> ToolSnapshot:
    snapshot = await hosted.relisted(server_name)
    if server_name in snapshot.problems:
        raise ConfigError(f"server {server_name!r}: {snapshot.problems[server_name]}")
    return snapshot


def check_name(name: str) -> None:
    """Raise ValueError for a name that cannot be a package's."""
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise ValueError(f"{name!r} cannot be the name of a package; use letters, digits and _, with a letter first")
    if (module := name_server_modules([name])[name]) != name:
        raise ValueError(f"code would import the package {name!r} as {module!r}; call it {module!r}")


def write_package(
    snapshot: ToolSnapshot, name: str, params: Mapping[str, Any], root: Path, *, async_api: bool = False
) -> None:
    """Write a server's package into `root`, in place of what has its name, and keep what reaches the server.

    Raises InputError. Blocking.
    """
    if root.is_symlink() or link_of_code(root) is not None:
        raise InputError(f"{root} is a link, or leads through one that code may have made; name the folder itself")
    target, own = root / name, secrets.token_hex(8)
    building, before = root / f".{name}-{own}", root / f".{name}-{own}-before"
    try:
        root.mkdir(parents=True, exist_ok=True)
        _write_modules(building, snapshot.tree / "mcptools" / name, async_api=async_api)
        register(root, name, params, os.environ, async_api=async_api)
        with suppress(FileNotFoundError):
            target.rename(before)  # a symlink itself, not what it leads to
        building.rename(target)
    except OSError as error:
        if not os.path.lexists(target) and os.path.lexists(before):
            before.rename(target)
        raise InputError(f"the package {target} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
        if before.is_symlink() or before.is_file():
            before.unlink()
        else:
            shutil.rmtree(before, ignore_errors=True)


def _write_modules(building: Path, tree: Path, *, async_api: bool) -> None:
    """SECURITY: code may have leave to write there, and put links in place of what is being made: none is followed."""
    building.mkdir()
    folder = os.open(building, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        texts = {path.name: path.read_text(encoding="utf-8") for path in tree.glob("*.py")}
        modules = {name: _outside(text, async_api=async_api) for name, text in texts.items()}
        for name, text in {**modules, "_client.py": _CLIENT}.items():
            fd = os.open(
                name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder
            )
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(text)
    finally:
        os.close(folder)


def _outside(module: str, *, async_api: bool) -> str:
    """A module of the wrapper tree as one that can be imported outside a sandbox, too."""
    module = module.replace("\nfrom client.mcp_client import ", "\nfrom ._client import ", 1)
    if async_api:
        module = module.replace("\ndef run(", "\ndef run_sync(", 1).replace(
            "\nasync def run_async(", "\nasync def run(", 1
        )
        module = module.replace('"""`run` for `await`."""', '"""`run_sync` for `await`."""', 1)
    return module
