"""Whole commands that are killed during a tool call: no process, group, socket or folder of theirs remains."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from apps import DATA, SERVERS
from commands.process import SCRIPT, Command, preload
from process_tree import children_of
from sandboxes.remains import Graveyard, reapers, started_here
from waiting import until

if TYPE_CHECKING:
    from collections.abc import Generator

pytestmark = [pytest.mark.anyio, pytest.mark.claim("C-PROC-3")]

CODE = "from servers.waiting import wait\nprint('before')\nawait wait()"


@pytest.fixture
def graveyard(tmp_path: Path) -> Generator[Graveyard]:
    preload()
    graveyard = Graveyard(tmp_path)
    yield graveyard
    graveyard.close()


def config(folder: Path, called: Path) -> Path:
    server = {"command": sys.executable, "args": [str(SERVERS / "waiting.py"), str(called)]}
    path = folder / "servers.json"
    block = {"moonpool": {"allow": ["*"]}}
    path.write_text(json.dumps({"mcpServers": {"waiting": {**server, **block}}}), encoding="utf-8")
    return path


def start(folder: Path, *arguments: str | Path, **streams: Any) -> subprocess.Popen[bytes]:
    process = Command(
        [SCRIPT, *arguments],
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={**os.environ, "MOONPOOL_DATA_DIR": str(DATA)},
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **streams},
    )
    started_here(process.pid)
    return process


def run_folders(host: int) -> list[Path]:
    """The folders that the reapers of `host` were told."""
    lines = [Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8") for pid in reapers(host)]
    return [Path(line.split("'")[3]) for line in lines]


async def kill(host: int, *processes: subprocess.Popen[bytes]) -> list[Path]:
    """SIGKILL for a host that has a sandbox; the folders that must go with it."""
    folders = run_folders(host)
    assert [folder.is_dir() for folder in folders] == [True]
    os.kill(host, signal.SIGKILL)
    with anyio.fail_after(30):
        for process in processes:
            await asyncio.to_thread(process.wait)
    return folders


@pytest.mark.parametrize("backend", ["zygote", pytest.param("bubblewrap", marks=pytest.mark.slow)])
async def test_a_run_that_is_killed_in_the_middle_of_a_tool_call_leaves_nothing(
    backend: str, tmp_path: Path, graveyard: Graveyard
) -> None:
    called = tmp_path / "called"
    servers = config(tmp_path, called)
    process = start(tmp_path, "run", "--backend", backend, "--config", servers, "-c", CODE)
    await until(called.exists, within_s=90)
    assert len(graveyard.remains().processes) >= 5  # host, server, reaper, outer sandbox, kernel
    folders = await kill(process.pid, process)
    called.unlink()
    servers.unlink()
    await graveyard.is_empty_soon()
    assert [folder for folder in folders if folder.exists()] == []


async def test_a_session_that_is_killed_in_the_middle_of_a_tool_call_leaves_nothing(
    tmp_path: Path, graveyard: Graveyard
) -> None:
    called = tmp_path / "called"
    servers = config(tmp_path, called)
    name = f"killed-{uuid.uuid4().hex[:12]}"
    client = start(tmp_path, "run", "--session", name, "--config", servers, "-c", CODE)
    await until(called.exists, within_s=90)
    host = next(pid for pid in graveyard.remains().processes if reapers(pid))
    folders = await kill(host, client)
    assert client.returncode != 0
    called.unlink()
    servers.unlink()
    await graveyard.is_empty_soon()
    assert [folder for folder in folders if folder.exists()] == []
    closing = start(tmp_path, "session", "close", name)
    with anyio.fail_after(30):
        assert await asyncio.to_thread(closing.wait) == 2  # there is none of this name any more
    assert list(DATA.rglob(f"*{name}*")) == []


@pytest.mark.req("I-092")
async def test_an_mcp_server_that_is_killed_in_the_middle_of_a_tool_call_leaves_nothing(
    tmp_path: Path, graveyard: Graveyard
) -> None:
    called = tmp_path / "called"
    servers = config(tmp_path, called)
    process = start(tmp_path, "mcp", "--config", servers, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    for message in (
        {"id": 1, "method": "initialize", "params": info},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "execute_code", "arguments": {"code": CODE}}},
    ):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        process.stdin.flush()
    await until(called.exists, within_s=90)
    folders = await kill(process.pid, process)
    process.stdin.close()
    process.stdout.close()
    called.unlink()
    servers.unlink()
    await graveyard.is_empty_soon()
    assert [folder for folder in folders if folder.exists()] == []
    assert children_of(process.pid) == []
