"""The official suite against the profile `direct`, with a fixture server of ours behind it: broker and face together.

A run takes all scenarios that a revision requires, and those that it only reports, at that revision's wire.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from apps import DATA
from conformance.suite import NODE, SUITE, Verdict
from installs import node_environment

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from moonpool.core.json import JsonObject

UPSTREAM = Path(__file__).with_name("upstream.py")
BLOCK: JsonObject = {
    "allow": ["*"],
    "expose": "direct",
    "elicitation": "relay",
    "sampling": "relay",
    "client_roots": True,
    "requests_per_minute": 600,
}
MODERN = "2026-07-28"
LEGACY = "legacy"
RUNS = (("2025-11-25", LEGACY), ("2025-11-25", MODERN), (MODERN, MODERN))
"""At which wire, and of which era the server behind it is. A 2025 client meets one of either; what a 2026 scenario
wants to see of questions, only a 2026 server says."""
_STARTED_S = 60.0
_RUN_S = 150.0
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/mcp")
_STAMP = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")


@dataclass(frozen=True, kw_only=True)
class Report:
    """What the suite said about one run."""

    exit_code: int
    verdicts: dict[str, Verdict]
    summary: str = field(repr=False)


async def run_suite(revision: str, era: str, scratch: Path) -> Report:
    """Have the suite judge the server at one revision's wire."""
    async with _served(era, scratch) as url:
        process = await asyncio.create_subprocess_exec(
            NODE, SUITE / "dist" / "index.js", "server", "--url", url, "--requirements", revision,
            "-o", scratch / "out",
            cwd=scratch, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, env={**node_environment(), "NO_COLOR": "1"},
        )  # fmt: skip
        try:
            async with asyncio.timeout(_RUN_S):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode is not None
    verdicts = {name: _verdict(path) for path in (scratch / "out").rglob("checks.json") if (name := _name(path))}
    _, _, summary = output.decode(errors="replace").rpartition("=== SUMMARY ===")
    return Report(exit_code=process.returncode, verdicts=verdicts, summary=summary.strip())


def _name(path: Path) -> str:
    found = _STAMP.fullmatch(path.parent.name)
    return found[1] if found else ""


def _verdict(path: Path) -> Verdict:
    checks = json.loads(path.read_bytes())
    bad = [check for check in checks if check["status"] in {"FAILURE", "WARNING"}]
    report = "\n".join(f"{check['status']} {check['name']}: {check.get('errorMessage')}" for check in bad)
    good = sum(check["status"] == "SUCCESS" for check in checks)
    return Verdict(passed=not bad and good > 0, checks=len(checks), report=report)


@asynccontextmanager
async def _served(era: str, scratch: Path) -> AsyncGenerator[str]:
    """The address of `moonpool serve` with the profile `direct` and the fixture server of this era."""
    entry: JsonObject = {"command": sys.executable, "args": [str(UPSTREAM), era], "moonpool": BLOCK}
    config = scratch / "servers.json"
    config.write_text(json.dumps({"mcpServers": {"fixture": entry}}), encoding="utf-8")
    options = ("--no-auth", "--profile", "direct", "--port", "0", "--data-dir", scratch / "data", "--config", config)
    process = await asyncio.create_subprocess_exec(
        Path(sys.prefix) / "bin" / "moonpool", "serve", *options,
        stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, cwd=scratch,
        env={**os.environ, "MOONPOOL_DATA_DIR": str(DATA)},
    )  # fmt: skip
    try:
        assert process.stderr is not None
        said: list[str] = []
        async with asyncio.timeout(_STARTED_S):
            while not (found := _ADDRESS.search(said[-1] if said else "")):
                said.append((await process.stderr.readline()).decode(errors="replace"))
                assert said[-1], "".join(said)
        reading = asyncio.ensure_future(process.stderr.read())  # a full pipe would hold it up
        yield found[0]
        process.terminate()
        await reading
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
