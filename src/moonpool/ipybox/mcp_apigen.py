"""`generate_mcp_sources`: the tools of an MCP server as a Python package."""

from __future__ import annotations

import asyncio
import keyword
import os
import secrets
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from moonpool.core.errors import ConfigError, InputError
from moonpool.core.naming import name_server_modules
from moonpool.ipybox.options import with_env_file
from moonpool.ipybox.registered_servers import register
from moonpool.sdk.hosted_session import EventTypes, HostedSession, in_a_thread
from moonpool.sdk.options import SessionOptions
from moonpool.sdk.session_handle import SessionHandle
from moonpool.wrappers.names import name_manifest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from moonpool.configuration.servers import McpConfig
    from moonpool.tools.snapshot import ToolSnapshot


async def generate_mcp_sources(server_name: str, server_params: dict[str, Any], root_dir: Path) -> list[str]:
    """Write the package `root_dir/server_name`, with a module for each tool of a server, and return their names.

    `server_params` has `command`, `args`, `env` of a server that is started, or `url`, `headers`, `type` of one that is
    reached by HTTP. `${VAR}` in it is replaced by the environment's value, or that in the file `.env`, each time the
    server is started; only the placeholder is kept. Code of executors that start afterwards imports the package and
    calls the server; `reset` of one that is open lets it know the server too. A package of this name is replaced when
    the new one is complete. Raises ValueError for a name that cannot be a package, InputError, and ConfigError when the
    server cannot be reached.
    """
    _check_name(server_name)
    options = _OneServer(servers={server_name: server_params}, apart=object())
    session = SessionHandle(options, EventTypes(object, object), lambda: in_a_thread)
    try:
        snapshot = await session.call(lambda hosted: _listed(hosted, server_name)).wait()
        names = name_manifest(snapshot.manifest).servers[server_name]
        await asyncio.to_thread(_write, snapshot, server_name, server_params, root_dir)
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


def _check_name(name: str) -> None:
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise ValueError(f"{name!r} cannot be the name of a package; use letters, digits and _, with a letter first")
    if (module := name_server_modules([name])[name]) != name:
        raise ValueError(f"code would import the package {name!r} as {module!r}; call it {module!r}")


def _write(snapshot: ToolSnapshot, name: str, params: Mapping[str, Any], root: Path) -> None:
    if root.is_symlink():  # by code in a sandbox, perhaps
        raise InputError(f"{root} is a link; name the folder that it leads to")
    target, own = root / name, secrets.token_hex(8)
    building, before = root / f".{name}-{own}", root / f".{name}-{own}-before"
    try:
        root.mkdir(parents=True, exist_ok=True)
        shutil.copytree(snapshot.tree / "mcptools" / name, building)
        register(root, name, params, os.environ)
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
