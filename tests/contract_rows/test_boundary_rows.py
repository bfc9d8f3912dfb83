"""Rows about what must not exist: a way around isolation, a Docker socket, a verb that is a proxy."""

from __future__ import annotations

import re
from typing import get_args

import anyio
import pytest

from apps import fixture_server, open_app, run
from house.tracked import ROOT, tracked_files
from moonpool.bootstrap import BACKENDS
from moonpool.core.errors import ConfigError
from moonpool.sandboxes.messages import GuestMessage, ToolCall
from moonpool.settings import Settings

DOCKER_SOCKET = "docker" + ".sock"  # written so that this file does not match itself
_TALKS_ABOUT_IT = (
    "tests/", "docs/", "src/moonpool/doctor/probes/", "THREAT_MODEL.md",
    "src/moonpool/sandboxes/container_sockets.py",  # refuses to show it
)  # fmt: skip


@pytest.mark.req("H-002", "H-005")
def test_no_setting_and_no_backend_runs_code_without_isolation() -> None:
    names = Settings.__struct_fields__
    assert set(BACKENDS) == {"zygote", "bubblewrap"}
    named = {name for name in names if re.search("unsafe|isolat|insecure|trust|host|no_", name)}
    assert named == {"package_hosts", "trusted_proxies", "webhook_private_hosts"}  # none is about code of a sandbox


@pytest.mark.req("H-002", "H-005")
@pytest.mark.parametrize("backend", ["none", "host", "fake", "process", ""])
def test_other_backends_are_refused(backend: str) -> None:
    with pytest.raises(ConfigError, match="bubblewrap or zygote"):
        Settings.load({"MOONPOOL_BACKEND": backend})


@pytest.mark.req("H-056")
def test_a_sandbox_has_no_network_or_one_of_listed_domains() -> None:
    """No setting gives a sandbox a network; one bounds the domains that an application may list (C-NET-1, C-NET-3)."""
    names = Settings.__struct_fields__
    bounds = {"network", "network_bytes_max", "network_connections_max", "network_ca_file"}
    assert {name for name in names if re.search("net|egress|proxy|dns|allow", name)} == bounds
    for text in ("direct", "*", "*.com", "10.0.0.1", "0.0.0.0/0"):
        with pytest.raises(ConfigError, match="MOONPOOL_NETWORK"):
            Settings.load({"MOONPOOL_NETWORK": text})


@pytest.mark.req("H-054", "H-073", "X-24")
def test_no_file_mounts_or_opens_the_docker_socket() -> None:
    found = [
        str(path)
        for path in tracked_files()
        if not str(path).startswith(_TALKS_ABOUT_IT)
        and DOCKER_SOCKET in (ROOT / path).read_text(encoding="utf-8", errors="replace")
    ]
    assert found == []


@pytest.mark.anyio
@pytest.mark.req("H-054", "H-073", "X-24")
async def test_a_sandbox_has_no_docker_socket_among_its_mounts_and_files() -> None:
    code = f"""
import os
result = [name for name in ("/run/{DOCKER_SOCKET}", "/var/run/{DOCKER_SOCKET}") if os.path.lexists(name)]
result += [line for line in open("/proc/self/mountinfo") if "docker" in line]
"""
    async with open_app() as app:
        with anyio.fail_after(30):
            envelope = await run(app, code)
    assert envelope.data == []


@pytest.mark.req("H-060")
def test_the_only_things_a_sandbox_can_ask_for_are_a_tool_and_a_package_by_name() -> None:
    verbs = {str(message.__struct_config__.tag) for message in get_args(GuestMessage)}
    answers = {
        verb for verb in verbs if verb.startswith(("file_", "nondeterminism_", "checkpoint_"))
    }  # to orders of the host only
    told = {"ready", "failed", "display", "bundle", "made", "output", "done", "kernel_ended"}
    assert verbs - answers == {"tool_call", "call_refused", "install_packages", *told}
    assert set(ToolCall.__struct_fields__) == {"id", "server", "tool", "line"}  # the line is shown to people only


@pytest.mark.anyio
@pytest.mark.req("H-059", "H-060")
async def test_an_address_in_place_of_a_server_is_an_unknown_tool() -> None:
    code = """
from client.mcp_client import call_tool
result = [(await call_tool(server_id=server, name="GET", arguments={})).error["type"]
          for server in ("http://192.0.2.1/", "CONNECT 192.0.2.1:443", "/bin/sh", "")[:3]]
"""
    async with open_app({"echo": fixture_server("echo.py")}) as app:
        with anyio.fail_after(30):
            envelope = await run(app, code)
    assert envelope.data == ["UnknownTool"] * 3
