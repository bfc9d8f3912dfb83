"""`generate_mcp_sources`: the tools of an MCP server as a Python package."""

from __future__ import annotations

import asyncio
import errno
import keyword
import os
import secrets
import shutil
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from moonpool.core.errors import ConfigError, InputError, MoonpoolError
from moonpool.core.naming import name_server_modules
from moonpool.ipybox.env_file import with_env_file
from moonpool.ipybox.options import as_path
from moonpool.ipybox.registered_servers import register
from moonpool.sandboxes.code_writable import link_of_code
from moonpool.sandboxes.folder_binding import open_without_links
from moonpool.sdk.approve_functions import EventTypes, in_a_thread
from moonpool.sdk.options import SessionOptions
from moonpool.sdk.session_handle import SessionHandle
from moonpool.wrappers.names import name_manifest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from moonpool.configuration.servers import McpConfig
    from moonpool.sdk.hosted_session import HostedSession
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
    server_name: str, server_params: dict[str, Any], root_dir: Path | str, async_api: bool = False
) -> list[str]:
    """Write the package `root_dir/server_name`, with a module for each tool of a server, and return their names.

    `server_params` has `command`, `args`, `env` of a server that is started, or `url`, `headers`, `type` of one that is
    reached by HTTP. `${VAR}` in all but `command` is replaced by the environment's value, or that in the file `.env`,
    each time the server is started; only the placeholder is kept. Code of executors imports the package and calls the
    server; that of one that runs already, from its next execution on, or where another server had this name, after
    `reset()`. A package of this name is replaced when the new one is complete. Imported outside a sandbox, it calls the
    server through a `ToolServer`. With `async_api` its `run` is awaited. Raises ValueError for a name that cannot be a
    package, InputError, and ConfigError when the server cannot be reached.
    """
    check_name(server_name)
    check_command(server_params)
    root = as_path(root_dir, "root_dir")
    options = _OneServer(servers={server_name: server_params}, apart=object())
    session = SessionHandle(options, EventTypes(object, object), lambda: in_a_thread)
    try:
        snapshot = await session.call_here(lambda hosted: _listed(hosted, server_name)).wait()
        names = name_manifest(snapshot.manifest).servers[server_name]
        await asyncio.to_thread(write_package, snapshot, server_name, server_params, root, async_api=async_api)
    finally:
        if (closing := session.close()) is not None:
            await closing.wait()
    return [tool.module for tool in names.tools.values()]


class _OneServer(SessionOptions):
    source = "server_params"

    def config(self, environ: Mapping[str, str]) -> McpConfig | None:
        return super().config(with_env_file(environ))


async def _listed(hosted: HostedSession, server_name: str) -> ToolSnapshot:
    snapshot = await hosted.relisted(server_name)
    if server_name in snapshot.problems:
        raise ConfigError(snapshot.problems[server_name])
    return snapshot


def check_name(name: str) -> None:
    """Raise ValueError for a name that cannot be a package's."""
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise ValueError(f"{name!r} cannot be the name of a package; use letters, digits and _, with a letter first")
    if (module := name_server_modules([name])[name]) != name:
        raise ValueError(f"code would import the package {name!r} as {module!r}; call it {module!r}")


def check_command(params: Mapping[str, Any]) -> None:
    """Raise InputError for a command that is not the same at each start.

    SECURITY: whoever is asked about it must see what runs, and a file `.env` must not name programs.
    """
    if "${" in str(params.get("command", "")):
        raise InputError("write the command of a server out: `${` is for its args, env, cwd, url and headers")


def write_package(
    snapshot: ToolSnapshot, name: str, params: Mapping[str, Any], root: Path, *, async_api: bool = False
) -> None:
    """Write a server's package into `root`, in place of what has its name, and keep what reaches the server.

    Raises InputError. Blocking.
    """
    root, at = _opened(root)
    own = secrets.token_hex(8)
    building, before = f".{name}-{own}", f".{name}-{own}-before"
    in_place = False
    try:
        os.mkdir(building, dir_fd=at)
        _write_files(_files(snapshot.tree / "mcptools" / name, async_api=async_api), building, at)
        with suppress(FileNotFoundError):
            os.rename(name, before, src_dir_fd=at, dst_dir_fd=at)  # a link itself, not what it leads to
        os.rename(building, name, src_dir_fd=at, dst_dir_fd=at)
        in_place = True
        register(root, name, params, os.environ, async_api=async_api)  # last: it decides what is started
    except (OSError, MoonpoolError) as error:
        with suppress(OSError):  # back, where nothing else is there by now
            if in_place:
                os.rename(name, building, src_dir_fd=at, dst_dir_fd=at)
            os.rename(before, name, src_dir_fd=at, dst_dir_fd=at)
        if isinstance(error, MoonpoolError):
            raise
        raise _unwritable(root / name, error) from error
    finally:
        for left in (building, before):
            _remove(left, at)
        os.close(at)


def check_root(root: Path) -> None:
    """Raise InputError where no package can be written; the folder is made. Blocking."""
    root, at = _opened(root)
    probe = f".{secrets.token_hex(8)}"
    try:
        os.mkdir(probe, dir_fd=at)
        os.rmdir(probe, dir_fd=at)
    except OSError as error:
        raise _unwritable(root, error) from error
    finally:
        os.close(at)


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"the package {path} cannot be written: {error.strerror or error}")


def _opened(root: Path) -> tuple[Path, int]:
    """The folder of packages, made where it is missing, without links above it; and a descriptor. Raises InputError."""
    if link_of_code(root) is not None:
        raise InputError(f"{root} leads through a link that code may have made; name the folder itself")
    # SECURITY: code in a sandbox may work in this folder meanwhile: from here on no name in it is followed as a link.
    root = root.parent.resolve() / root.name
    try:
        return root, open_without_links(root, make=True)
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror
        raise InputError(f"{root} cannot be the folder of packages: {why}") from error


def _files(package: Path, *, async_api: bool) -> dict[str, str]:
    """The files of a package, by name."""
    modules = {path.name: path.read_text(encoding="utf-8") for path in package.glob("*.py")}
    files = {name: _outside(text, async_api=async_api) for name, text in modules.items()}
    return {**files, "_client.py": _CLIENT}


def _write_files(files: Mapping[str, str], folder: str, at: int) -> None:
    """Write new files into the new folder `folder` of the folder `at`. Raises OSError."""
    inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        for name, text in files.items():
            fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=inside)
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(text)
    finally:
        os.close(inside)


def _remove(name: str, at: int) -> None:
    """Remove a folder, a file or a link of the folder `at`, if it is there."""
    with suppress(OSError):
        if stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            shutil.rmtree(name, ignore_errors=True, dir_fd=at)
        else:
            os.unlink(name, dir_fd=at)


def _outside(module: str, *, async_api: bool) -> str:
    """A module of the wrapper tree as one that can be imported outside a sandbox, too."""
    module = module.replace("\nfrom client.mcp_client import ", "\nfrom ._client import ", 1)
    if async_api:
        module = module.replace("\ndef run(", "\ndef run_sync(", 1).replace(
            "\nasync def run_async(", "\nasync def run(", 1
        )
        module = module.replace('"""`run` for `await`."""', '"""`run_sync` for `await`."""', 1)
    return module
