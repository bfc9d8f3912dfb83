"""`sandbox_config`: what a settings file of sandbox-runtime grants here, and what is an error."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import moonpool
from moonpool.ipybox import CodeExecutor
from moonpool.ipybox.sandbox_config import read_rules
from tables import every_row

DEFAULT: dict[str, Any] = {
    "enableWeakerNestedSandbox": False,
    "allowPty": True,
    "filesystem": {"denyRead": [".env"], "allowWrite": [".", "../pictures", "~/.ipython"], "denyWrite": []},
    "network": {"allowedDomains": [], "deniedDomains": [], "allowLocalBinding": True},
}


def network(**members: Any) -> dict[str, Any]:
    return {"network": members}


def filesystem(**members: Any) -> dict[str, Any]:
    return {"filesystem": members}


SEEN = ("private", ".", "..", "/", "../lib", "../lib/x", "../pictures", "/usr", "/usr/share", "/etc/ssl/certs", "/lib")
"""Paths of what code reads, holds, or has something of."""


def domains_of(file: Path, working_dir: Path) -> tuple[str, ...]:
    """What code gets whose folders are the working directory, one for pictures and one for imports beside it."""
    beside = working_dir.parent
    return read_rules(file).domains((working_dir, beside / "pictures"), (beside / "lib",), os.environ)


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
        (filesystem(allowWrite=["./"]), None),  # the pictures' folder is not in it
        (filesystem(allowWrite=["./", "../pictures", "/tmp"]), ()),
        (filesystem(allowWrite=["..", "/etc"]), None),
        (filesystem(allowWrite=[".", "sub", "../pictures"]), ()),
        (filesystem(allowWrite=[]), None),
        (filesystem(allowWrite=["sub", "../pictures"]), None),
        (filesystem(allowWrite=["~"]), None),
        (filesystem(denyRead=["~/.ssh", "sub/.env", "../other"]), ()),
        *((filesystem(denyRead=[path]), None) for path in SEEN),
        (filesystem(denyWrite=["../lib", "/usr", "../other"]), ()),  # which code cannot write anyway
        *((filesystem(denyWrite=[path]), None) for path in (".", "sub", "..", "/", "../pictures/x", "**/x")),
        ([], None),
    ],
)
def test_a_file_is_granted_or_refused(document: Any, domains: tuple[str, ...] | None, tmp_path: Path) -> None:
    file = tmp_path / "sandbox.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    if domains is None:
        with pytest.raises(moonpool.ConfigError, match=r"sandbox\.json"):
            domains_of(file, tmp_path / "work")
    else:
        assert domains_of(file, tmp_path / "work") == domains


@every_row("content", [b"", b"[" * 100_000, b"\xff", b" " * 1_100_000])
def test_what_is_no_settings_file_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "sandbox.json"
    file.write_bytes(content)
    with pytest.raises(moonpool.ConfigError, match="sandbox configuration"):
        read_rules(file)


@pytest.mark.anyio
@pytest.mark.req("I-073", "I-078", "X-09")
async def test_hosts_that_the_file_leaves_out_are_refused_and_without_it_there_is_no_network(project: Path) -> None:
    """`test_seed_examples` reaches the hosts that it names."""
    file = project / "sandbox.json"
    file.write_text(json.dumps(network(allowedDomains=["allowed.example"])), encoding="utf-8")
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
