"""`moonpool secrets`: values come from standard input and are never printed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from commands.process import SCRIPT, run_command

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

CANARY = "canary-4711-value"


def secrets(data: Path, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environ = {**os.environ, "MOONPOOL_DATA_DIR": str(data)}
    return run_command([SCRIPT, "secrets", *arguments], input=given, env=environ)


def test_a_secret_is_set_listed_and_removed(tmp_path: Path) -> None:
    stored = secrets(tmp_path, "set", "db", given=f"{CANARY}\n".encode())
    listed = secrets(tmp_path, "list")
    removed = [secrets(tmp_path, "remove", "db").returncode for _ in range(2)]
    assert b"no secrets are stored" in secrets(tmp_path, "list").stderr
    assert (stored.returncode, listed.stdout, removed) == (0, b"db\n", [0, 1])
    assert CANARY.encode() not in stored.stdout + stored.stderr + listed.stderr


def test_a_value_is_no_argument(tmp_path: Path) -> None:
    assert secrets(tmp_path, "set", "db", CANARY).returncode == 2
    assert b"is empty" in secrets(tmp_path, "set", "db").stderr
    assert b"cannot be a secret's name" in secrets(tmp_path, "set", "../db", given=b"x").stderr
