"""The guest bundle: the code that runs inside a sandbox, published where the sandbox uid can read it.

The bundle holds the packages `moonpool_guest` and `moonpool_wire` with their compiled bytecode, is named by the digest
of their sources, and never changes. Bytecode is unchecked: a sandbox imports it without reading the source.

INVARIANT: the packages are found, never imported; guest code does not run in the host.
"""

from __future__ import annotations

import hashlib
import importlib.util
import py_compile
import sys
from pathlib import Path

from moonpool.environments.base import EnvironmentBuildError
from moonpool.environments.publishing import building_folder, held_lock, remove_stale_builds

GUEST_PACKAGES = ("moonpool_guest", "moonpool_wire")
_LAYOUT = b"1"
_IGNORED_SUFFIXES = frozenset({".pyc", ".pyo"})


def publish_guest(root: Path) -> Path:
    """Return the folder to put on a guest's `sys.path`. Reads some dozen small files; writes only on first use.

    `root` must have passed `publishing.ensure_root`, which `resolve_environment` ensures.
    """
    sources = _read_sources()
    final = root / "guest" / _digest(sources)
    if final.is_dir():
        return final
    with held_lock(root, "guest"):
        remove_stale_builds(final.parent)
        if not final.is_dir():
            with building_folder(final) as folder:
                _write_bundle(folder, final, sources)
    return final


def _read_sources() -> dict[str, bytes]:
    """Contents of every guest file by its path inside the bundle, in a fixed order."""
    return {
        f"{name}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for name in GUEST_PACKAGES
        for folder in [_package_folder(name)]
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix not in _IGNORED_SUFFIXES
    }


def _package_folder(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise EnvironmentBuildError(f"package {name} is not installed; install moonpool again")
    return Path(spec.submodule_search_locations[0])


def _digest(sources: dict[str, bytes]) -> str:
    digest = hashlib.sha256(_LAYOUT + (sys.implementation.cache_tag or "").encode())
    for path, content in sources.items():
        digest.update(f"\0{path}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _write_bundle(folder: Path, final: Path, sources: dict[str, bytes]) -> None:
    """Write the bytes that were hashed; the files may have changed since."""
    for path, content in sources.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        if "bin" in target.parts[-3:-1] and not target.suffix:
            target.chmod(0o755)  # a wheel does not preserve it
        if target.suffix == ".py":
            _compile(target, final / path)


def _compile(source: Path, known_as: Path) -> None:
    try:
        py_compile.compile(
            str(source),
            dfile=str(known_as),
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
    except py_compile.PyCompileError as exc:
        raise EnvironmentBuildError(f"guest file {known_as.name} does not compile: {exc.msg.strip()}") from exc
