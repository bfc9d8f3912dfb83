"""`sandbox_config`: what a settings file of sandbox-runtime grants here, and what is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import moonpool
from moonpool.ipybox import CodeExecutor
from moonpool.ipybox.sandbox_config import allowed_domains
from tables import every_row

DEFAULT: dict[str, Any] = {
    "enableWeakerNestedSandbox": False,
    "allowPty": True,
    "filesystem": {"denyRead": [".env"], "allowWrite": [".", "~/Library/Jupyter", "~/.ipython"], "denyWrite": []},
    "network": {"allowedDomains": [], "deniedDomains": [], "allowLocalBinding": True},
}


def network(**members: Any) -> dict[str, Any]:
    return {"network": members}


def filesystem(**members: Any) -> dict[str, Any]:
    return {"filesystem": members}


@pytest.mark.req("I-074", "I-075")
@every_row(
    ("document", "domains"),
    [
        (DEFAULT, ()),
        ({}, ()),
        ({**DEFAULT, **network(allowedDomains=["example.org"])}, ("example.org",)),
        (network(allowedDomains=["example.org", "*.example.com"], deniedDomains=["*.org"]), None),
        (network(allowedDomains=["example.org", "a.example.com"], deniedDomains=["*.example.com"]), ("example.org",)),
        (network(allowedDomains=["example.org"], deniedDomains=["example.org"]), ()),
        (network(allowedDomains=["*.example.org"], deniedDomains=["bad.example.org"]), None),
        (network(allowedDomains=["*"]), None),
        (network(allowedDomains=["127.0.0.1"]), None),
        (network(allowedDomains="example.org"), None),
        (network(allowedDomains=[1]), None),
        (network(allowUnixSockets=[]), ()),
        (network(allowUnixSockets=["/run/docker.sock"]), None),
        (network(allowAllUnixSockets=True), None),
        (network(httpProxyPort=3128), None),
        (network(alowedDomains=[]), None),
        ({"network": []}, None),
        ({"ignoreViolations": {}}, None),
        ({"allowPty": "yes"}, None),
        (filesystem(allowWrite=["./", "/tmp"]), ()),
        (filesystem(allowWrite=["/etc"]), None),
        (filesystem(allowWrite=["~"]), None),
        (filesystem(denyRead=["~/.ssh", "sub/.env"]), ()),
        (filesystem(denyRead=["private"]), None),
        (filesystem(denyWrite=["**/x"]), None),
        ([], None),
    ],
)
def test_a_file_is_granted_or_refused(document: Any, domains: tuple[str, ...] | None, tmp_path: Path) -> None:
    file = tmp_path / "sandbox.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    if domains is None:
        with pytest.raises(moonpool.ConfigError, match=r"sandbox\.json"):
            allowed_domains(file, tmp_path)
    else:
        assert allowed_domains(file, tmp_path) == domains


@every_row("content", [b"", b"[" * 100_000, b"\xff", b" " * 1_100_000])
def test_what_is_no_settings_file_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "sandbox.json"
    file.write_bytes(content)
    with pytest.raises(moonpool.ConfigError, match="sandbox configuration"):
        allowed_domains(file, tmp_path)


@pytest.mark.anyio
@pytest.mark.req("I-073", "I-078", "X-09")
async def test_hosts_that_the_file_leaves_out_are_refused_and_without_it_there_is_no_network(project: Path) -> None:
    """`test_seed_examples` reaches the hosts that it names."""
    file = project / "sandbox.json"
    file.write_text(json.dumps({**DEFAULT, **network(allowedDomains=["allowed.example"])}), encoding="utf-8")
    code = """
import urllib.request, urllib.error
try:
    urllib.request.urlopen("http://other.example/", timeout=20)
except OSError as error:
    print(type(error).__name__, getattr(error, "code", ""))
"""
    async with CodeExecutor(sandbox_config=file) as executor:
        assert (await executor.execute(code)).text == "HTTPError 403"
    async with CodeExecutor(sandbox=True) as executor:
        assert (await executor.execute(code)).text == "URLError"
    with pytest.raises(moonpool.ConfigError, match="cannot be read"):
        await CodeExecutor(sandbox=True, sandbox_config=project / "missing.json").start()
