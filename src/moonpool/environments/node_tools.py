"""The npm packages that the Node kernel needs for what its Node.js cannot do; locked, installed once per machine.

They are `sucrase`, which strips types from TypeScript before Node.js 22.13, and `undici`, whose `fetch` uses a proxy,
before 22.21 (24 of the next ones). The folder is bound into sandboxes from the start, empty or not; later contents
become visible in live sandboxes.

SECURITY: only packages whose hashes are locked are installed, and none of their scripts are run.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread

from moonpool.environments.base import BuildProgress, EnvironmentBuildError
from moonpool.environments.publishing import building_folder_async, building_lock, remove_stale_builds
from moonpool.sandboxes.code_writable import leads_to_code, variables_without_code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from moonpool.environments.base import ProgressSink

NAME: Final = "node-tools"
VERSION_WITHOUT_NEED: Final = (22, 13)
_FETCH_WITHOUT_NEED: Final = (22, 21)
_FETCH_IN_BETWEEN: Final = 23
BUILD_TIMEOUT_S: Final = 120.0
_FILES = ("package.json", "package-lock.json")
_OPTIONS = ("--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev", "--fetch-retries=1", "--fetch-timeout=20000")
_LINES_MAX, _LINE_CHARS_MAX = 6, 300
_SAID_BYTES_MAX = 64 * 1024


def are_needed(node_version: str) -> bool:
    """Whether a Node.js of this version needs them for TypeScript."""
    return _version(node_version) < VERSION_WITHOUT_NEED


def are_needed_to_fetch(node_version: str) -> bool:
    """Whether a Node.js of this version needs them for `fetch` through a proxy."""
    version = _version(node_version)
    return version < _FETCH_WITHOUT_NEED or version[0] == _FETCH_IN_BETWEEN


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(".")[:2])


def tools_place(root: Path) -> Path:
    """Where the tools are installed. Creates the parent folder, which sandboxes bind."""
    digest = hashlib.sha256("\0".join(_locked(name) for name in _FILES).encode()).hexdigest()[:16]
    around = root / NAME
    if not around.is_dir():
        around.mkdir(parents=True, exist_ok=True)
        around.chmod(0o755)  # regardless of the umask
    return around / digest


async def installed_tools(
    root: Path, *, npm: str, environ: Mapping[str, str], progress: ProgressSink | None = None
) -> Path:
    """Return the folder of the tools, installing them if missing. `npm` is a program or empty.

    Raises EnvironmentBuildError; TypeScript then cannot be run, nor `fetch` be used, everything else can.
    """
    final = await to_thread.run_sync(tools_place, root)
    if await to_thread.run_sync(final.is_dir):
        return final
    if not npm:
        raise EnvironmentBuildError("npm was not found, so TypeScript cannot be run; install the package `npm`")
    async with building_lock(root, NAME) as lock_fd:
        await to_thread.run_sync(remove_stale_builds, final.parent)
        if not await to_thread.run_sync(final.is_dir):
            _report(progress, 0, "installing packages")
            async with building_folder_async(final) as folder:
                await _install(folder, npm, environ, lock_fd)
                await to_thread.run_sync(os.sync)  # the contents must reach the disk before the rename
            _report(progress, 1, "ready")
    return final


async def _install(folder: Path, npm: str, environ: Mapping[str, str], lock_fd: int) -> None:
    if await to_thread.run_sync(leads_to_code, Path(npm)):  # SECURITY: it was found before the folder was attached
        raise EnvironmentBuildError(f"{NAME} could not be installed: code may write {npm}; install npm elsewhere")
    for name in _FILES:
        await to_thread.run_sync(_write, folder / name, _locked(name))
    with tempfile.TemporaryFile() as said:
        try:
            with anyio.fail_after(BUILD_TIMEOUT_S):
                status = await _run([npm, "ci", *_OPTIONS], folder, environ, said.fileno(), lock_fd)
        except (OSError, TimeoutError) as error:
            reason = f"npm did not finish within {BUILD_TIMEOUT_S:.0f} s" if isinstance(error, TimeoutError) else error
            raise EnvironmentBuildError(f"{NAME} could not be installed: {reason}; nothing was kept") from error
        if status != 0:
            text = _tail(os.pread(said.fileno(), _SAID_BYTES_MAX, 0))
            raise EnvironmentBuildError(f"npm could not install {NAME}; nothing was kept. It said:\n{text}")


async def _run(command: Sequence[str], folder: Path, environ: Mapping[str, str], said_fd: int, lock_fd: int) -> int:
    """Run npm in its own process group, which is killed if the wait is cancelled. npm inherits the lock: if we are
    killed, nobody clears the folder while it still writes. Output goes to a file, since npm's children could keep a
    pipe open.
    """
    variables = await to_thread.run_sync(variables_without_code, environ)
    process = await anyio.open_process(
        command,
        stdin=subprocess.DEVNULL,
        stdout=said_fd,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=variables,
        pass_fds=[lock_fd],
        start_new_session=True,
    )
    try:
        return await process.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await process.aclose()


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _tail(said: bytes) -> str:
    lines = [line for line in said.decode(errors="replace").splitlines() if line.startswith("npm error")]
    shown = ("".join(char for char in line[:_LINE_CHARS_MAX] if char.isprintable()) for line in lines[:_LINES_MAX])
    return "\n".join(f"  {line}" for line in shown)


def _locked(name: str) -> str:
    return (resources.files(__package__ or "") / "locks" / NAME / name).read_text(encoding="utf-8")


def _report(progress: ProgressSink | None, done: int, note: str) -> None:
    if progress:
        progress(BuildProgress(environment=NAME, done=done, total=1, note=note))
