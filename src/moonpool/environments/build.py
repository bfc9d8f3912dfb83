"""Build of an environment's packages: install, test, publish. Once per machine and lock.

uv installs the locked wheels into a folder of our own; then the environment's interpreter imports everything that will
be preloaded. That writes the font list and proves that the packages load and leave no thread running.

SECURITY: only wheels whose hashes are locked are installed, so no package's build script runs. This test does run
package code: as the sandbox uid when we are root, with an empty process environment.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, cast

import anyio
from anyio import to_thread
from anyio.streams.text import TextReceiveStream

from moonpool.environments.base import BuildProgress, EnvironmentBuildError
from moonpool.environments.package_index import read_pip_settings, uv_variables
from moonpool.environments.publishing import building_folder_async, building_lock, remove_stale_builds
from moonpool.sandboxes.code_writable import variables_without_code

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from pathlib import Path

    from anyio.abc import ByteReceiveStream

    from moonpool.environments.base import ProgressSink
    from moonpool.environments.interpreter import Interpreter
    from moonpool.environments.recipes import EnvironmentRecipe

PREPARE_MODULE = "moonpool_environment"
BUILD_TIMEOUT_S = 900.0
_TAIL_LINES = 12
_LINE_CHARS_MAX = 300
_PASSWORD = re.compile(r"//[^/@\s]+@")
_STEPS = ("fetching packages", "installing packages", "importing once", "publishing", "ready")

_PROOF = """
import importlib, json, os, sys
sys.path[:] = json.loads(sys.argv[1])
for name in json.loads(sys.argv[2]):
    importlib.import_module(name)
threads = len(os.listdir("/proc/self/task"))
sys.exit(f"{threads} threads after import, 1 expected" if threads != 1 else 0)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSpec:
    """Everything a build depends on."""

    recipe: EnvironmentRecipe
    digest: str  # from `environment_digest`
    interpreter: Interpreter
    root: Path
    uid: int  # whose sandboxes will read it
    progress: ProgressSink | None = None

    def report(self, done: int, note: str) -> None:
        if self.progress:
            self.progress(BuildProgress(environment=self.recipe.name, done=done, total=len(_STEPS) - 1, note=note))


def environment_digest(recipe: EnvironmentRecipe, interpreter: Interpreter) -> str:
    """Digest of an environment's contents. Blocks: reads the lock."""
    texts = [packaged_text(recipe.lock), packaged_text(recipe.prepare)]
    made_of = [interpreter.digest, recipe.name, *texts, recipe.preload, dict(recipe.variables)]
    return hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:16]


def packaged_text(name: str | None) -> str:
    """Return the text of a file that ships beside this module, or an empty string."""
    return resources.files(__package__ or "").joinpath(name).read_text(encoding="utf-8") if name else ""


def packages_folder(root: Path, recipe: EnvironmentRecipe, digest: str) -> Path:
    """Where the built packages are."""
    return root / recipe.name / digest


async def built_packages(spec: BuildSpec) -> Path:
    """Return the environment's folder, building it if missing; waits if another process is building it."""
    final = packages_folder(spec.root, spec.recipe, spec.digest)
    if await to_thread.run_sync(final.is_dir):
        return final
    async with building_lock(spec.root, spec.recipe.name) as lock_fd:
        await to_thread.run_sync(remove_stale_builds, final.parent)
        if await to_thread.run_sync(final.is_dir):
            return final
        try:
            with anyio.fail_after(BUILD_TIMEOUT_S):
                async with building_folder_async(final) as folder:
                    await _fill(spec, folder, lock_fd)
        except TimeoutError as exc:
            what = f"environment {spec.recipe.name!r} was not built within {BUILD_TIMEOUT_S:.0f} s"
            raise EnvironmentBuildError(f"{what}; check the connection to the package index and try again") from exc
    spec.report(4, _STEPS[4])
    return final


async def _fill(spec: BuildSpec, folder: Path, lock_fd: int) -> None:
    await _install(spec, folder, lock_fd)
    spec.report(2, _STEPS[2])
    await _prove(spec, folder)
    spec.report(3, _STEPS[3])
    await to_thread.run_sync(os.sync)  # the contents must reach the disk before the rename


async def _install(spec: BuildSpec, folder: Path, lock_fd: int) -> None:
    command, variables = await to_thread.run_sync(_install_command, spec, folder)
    spec.report(0, _STEPS[0])
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    # uv keeps the lock: if we are killed, nobody clears the folder while it still writes.
    process = await anyio.open_process(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd=folder,
        env=variables,
        pass_fds=[lock_fd],
    )
    async with process:
        try:
            said = cast("ByteReceiveStream", process.stderr)
            step = 0
            async for line in _lines(TextReceiveStream(said, errors="replace")):
                tail.append(line)
                step = 1 if line.startswith("Prepared ") else step
                spec.report(step, line if line.startswith("Download") else _STEPS[step])
            status = await process.wait()
        except BaseException:
            with suppress(ProcessLookupError):
                process.kill()
            raise
    if status != 0:
        raise _failed(spec, "uv could not install its packages", tail)
    await to_thread.run_sync(_add_prepare_module, spec, folder / "site")


def _install_command(spec: BuildSpec, folder: Path) -> tuple[list[str], dict[str, str]]:
    """Write the lock into the folder; return uv's command line and variables."""
    lock = folder / "requirements.txt"
    lock.write_text(packaged_text(spec.recipe.lock), encoding="utf-8")
    command = [
        *(uv_program(), "pip", "install", "--python", str(spec.interpreter.python), "--target", str(folder / "site")),
        *("--require-hashes", "--only-binary", ":all:", "--link-mode", "copy", "--compile-bytecode"),
        *("--requirements", str(lock)),
    ]
    return command, _uv_environment(spec.interpreter)


async def _lines(stream: TextReceiveStream) -> AsyncGenerator[str]:
    """Split text into bounded, printable lines without passwords."""
    rest = ""
    async for chunk in stream:
        *whole, rest = (rest + chunk).split("\n")
        rest = rest[:_LINE_CHARS_MAX]
        for line in whole:
            if cleaned := _clean(line):
                yield cleaned
    if cleaned := _clean(rest):
        yield cleaned


def _clean(line: str) -> str:
    printable = "".join(char for char in line[:_LINE_CHARS_MAX] if char.isprintable())
    return _PASSWORD.sub("//***@", printable).strip()


def uv_program() -> str:
    """Return the uv that was installed with us, never one from the PATH."""
    from uv import find_uv_bin  # noqa: PLC0415 - only a build needs it

    try:
        return find_uv_bin()
    except FileNotFoundError as exc:
        raise EnvironmentBuildError("uv is not installed beside moonpool; install moonpool again") from exc


def _uv_environment(interpreter: Interpreter) -> dict[str, str]:
    """Our process environment without variables that would redirect uv or Python."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PYTHON", "CONDA")) and key not in {"VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT"}
    }
    added = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1", **_library_path(interpreter)}
    return {**variables_without_code(kept), **uv_variables(read_pip_settings(), kept), **added}


def _library_path(interpreter: Interpreter) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": os.pathsep.join(map(str, interpreter.libs))} if interpreter.libs else {}


def _add_prepare_module(spec: BuildSpec, site: Path) -> None:
    shutil.rmtree(site / "bin", ignore_errors=True)  # console scripts with the temporary folder's name in them
    if spec.recipe.prepare:
        (site / f"{PREPARE_MODULE}.py").write_text(packaged_text(spec.recipe.prepare), encoding="utf-8")


async def _prove(spec: BuildSpec, folder: Path) -> None:
    """Import everything that will be preloaded, as a sandbox would, and keep the resulting font list."""
    fonts = folder / "matplotlib"
    drops = os.geteuid() == 0 and spec.uid != 0
    await to_thread.run_sync(_make_owned_folder, fonts, spec.uid if drops else -1)
    variables: Mapping[str, str] = {
        **spec.recipe.variables,
        **_library_path(spec.interpreter),
        "MPLCONFIGDIR": str(fonts),
        "HOME": "/nonexistent",
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
    }
    paths = [*map(str, spec.interpreter.stdlib_paths), str(folder / "site")]
    modules = [*([PREPARE_MODULE] if spec.recipe.prepare else []), *spec.recipe.preload]
    command = [str(spec.interpreter.python), "-I", "-S", "-B", "-c", _PROOF, json.dumps(paths), json.dumps(modules)]
    finished = await _run_dropped(command, variables, cwd=folder, uid=spec.uid if drops else None)
    if finished.returncode != 0:
        lines = [_clean(line) for line in finished.stderr.decode(errors="replace").splitlines()]
        raise _failed(spec, "its packages cannot be imported", lines[-_TAIL_LINES:])


async def _run_dropped(
    command: Sequence[str], variables: Mapping[str, str], *, cwd: Path, uid: int | None
) -> subprocess.CompletedProcess[bytes]:
    if uid is None:
        return await anyio.run_process(command, env=variables, cwd=cwd, check=False)
    return await anyio.run_process(command, env=variables, cwd=cwd, check=False, user=uid, group=uid, extra_groups=[])


def _make_owned_folder(folder: Path, uid: int) -> None:
    folder.mkdir()
    os.chown(folder, uid, uid)


def _failed(spec: BuildSpec, what: str, lines: Sequence[str]) -> EnvironmentBuildError:
    said = "\n".join(f"  {line}" for line in lines if line)
    return EnvironmentBuildError(f"environment {spec.recipe.name!r}: {what}; nothing was kept. It said:\n{said}")
