"""The console script as a person or a program starts it: a process of its own, its three streams, its end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps import DATA, SERVERS
from commands.process import SCRIPT, Command, run_command

LINE_BYTES_MAX = 64 * 1024
ENVELOPE_KEYS = {
    *("run_id", "trace_id", "tool_name", "tool_version", "input_digest", "output_digest", "sandbox_image"),
    *("duration_ms", "approval_state", "result"),
}


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command came to."""

    exit_code: int
    stdout: bytes
    stderr: str

    @property
    def envelope(self) -> dict[str, Any]:
        """The one line, checked to be one and an envelope."""
        assert self.stdout.endswith(b"\n"), (self.stdout[:500], self.stderr[-2000:])
        text = self.stdout.decode()
        assert len(text.splitlines()) == 1
        assert len(self.stdout) <= LINE_BYTES_MAX
        found = json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
        assert set(found) == ENVELOPE_KEYS
        result = found["result"]
        told = {"failed_calls", "files", "note"}
        assert set(result) - told == {"ok", "metrics", "data" if result["ok"] else "error"}
        assert self.exit_code == (0 if result["ok"] else 1)
        return found

    @property
    def result(self) -> dict[str, Any]:
        return self.envelope["result"]

    @property
    def error_type(self) -> str:
        return self.result["error"]["type"]

    @property
    def sentence(self) -> str:
        """The one sentence of a command that could not do anything, with its code."""
        assert (self.exit_code, self.stdout) == (2, b""), (self.exit_code, self.stdout[:500], self.stderr)
        assert self.stderr.startswith("moonpool: ")
        assert self.stderr.count("\n") == 1
        assert "Traceback" not in self.stderr
        assert re.search(r" \[[a-z_]+\]\n$", self.stderr), self.stderr
        return self.stderr.removeprefix("moonpool: ").rstrip("\n")


def environment(home: Path, **more: str) -> dict[str, str]:
    """A small environment with a home of its own and the test runs' shared data folder."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": str(home), "MOONPOOL_DATA_DIR": str(DATA), **more}


def moonpool(
    home: Path, *arguments: str | bytes | Path, stdin: bytes = b"", timeout_s: float = 60, **more: str
) -> Ended:
    """Run a command to its end, without a terminal. It is really started where Python's own start is of interest."""
    is_fresh = any(name.startswith("PYTHON") for name in more) or any(isinstance(one, bytes) for one in arguments)
    done = run_command(
        [SCRIPT, *arguments],
        input=stdin,
        timeout=timeout_s,
        start=subprocess.Popen if is_fresh else Command,
        cwd=home,
        env=environment(home, **more),
        start_new_session=True,
    )
    return Ended(done.returncode, done.stdout, done.stderr.decode(errors="replace"))


def run_code(home: Path, code: str, *options: str | Path, **more: Any) -> Ended:
    """`moonpool run -` with `code` on standard input."""
    return moonpool(home, "run", "-", *options, stdin=code.encode(), **more)


def raw_server(mode: str, log: Path | None = None, **block: Any) -> dict[str, Any]:
    """A server that misbehaves in one way, and its `moonpool` block."""
    arguments = [str(SERVERS / "raw.py"), mode, *([str(log)] if log else [])]
    return {"command": sys.executable, "args": arguments, "moonpool": block or {"allow": ["*"]}}


def write_config(folder: Path, servers: dict[str, Any], name: str = "servers.json") -> Path:
    path = folder / name
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path
