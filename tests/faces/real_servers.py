"""A configuration with the two servers of the examples, and a small repository for one of them."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from pathlib import Path

SCRIPTS = Path(sysconfig.get_path("scripts"))
_AUTHOR = ("-c", "user.name=Tester", "-c", "user.email=tester@example.com", "-c", "commit.gpgsign=false")


def make_config(folder: Path) -> tuple[Path, Path]:
    """Write a configuration below `folder`; return its path and the repository's."""
    repository = folder / "repository"
    repository.mkdir()
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for command in (["init", "-q"], [*_AUTHOR, "commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", *command], cwd=repository, check=True, env=environ)
    allow = {"moonpool": {"allow": ["get_*", "convert_*", "git_log", "git_status"]}}
    servers = {
        "time": {"command": str(SCRIPTS / "mcp-server-time"), "args": ["--local-timezone=UTC"], **allow},
        "git": {"command": str(SCRIPTS / "mcp-server-git"), "args": ["--repository", str(repository)], **allow},
    }
    path = folder / "servers.json"
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path, repository
