"""Tool names go out byte for byte, and any program may be a server."""

from __future__ import annotations

import contextlib
import json
import shutil
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.upstreams import UpstreamError
from upstreams.peers import configure, raw, upstream

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["a.b-c", "UPPER_case", "x" * 128, "ünï/code", "a b\tc"]


@pytest.mark.req("D-002")
@pytest.mark.anyio
@pytest.mark.parametrize("name", NAMES)
async def test_a_tool_is_called_by_its_own_name(name: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with anyio.fail_after(30):
        async with upstream(raw("good", log)) as srv:
            with contextlib.suppress(UpstreamError):  # the fixture need not have it
                await srv.call_tool(name, {}, timeout_s=20)
    sent = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [one["params"]["name"] for one in sent if one.get("method") == "tools/call"] == [name]


@pytest.mark.req("D-062", "I-076", "G-029", "G-038")
@pytest.mark.parametrize("command", ["npx", "uvx", "python", "node", "java", "docker", "dotnet", "./server.exe"])
def test_any_command_is_taken_with_its_arguments_as_they_are(command: str) -> None:
    arguments = ["-y", "run", "--rm", "a b", "$HOME", "*", ""]
    (server,) = configure({"srv": {"command": command, "args": arguments}}).servers
    assert (server.command, server.args) == (command, tuple(arguments))


@pytest.mark.req("D-062", "I-076", "G-038", "B-002")
@pytest.mark.anyio
async def test_arguments_reach_a_program_without_a_shell(tmp_path: Path) -> None:
    script = tmp_path / "server"
    script.write_text(f'#!{shutil.which("sh")}\nprintf "%s\\n" "$@" > "{tmp_path}/got"\n', encoding="utf-8")
    script.chmod(0o700)
    with anyio.fail_after(30):
        async with upstream({"command": str(script), "args": ["a b", "$HOME", "*", ";"]}) as srv:
            with pytest.raises(UpstreamError):
                await srv.list_tools()
    assert (tmp_path / "got").read_text(encoding="utf-8").splitlines() == ["a b", "$HOME", "*", ";"]
