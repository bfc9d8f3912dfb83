"""`run.sh`: what it takes, what it prints last, and what it exits by. The suite itself: test_client, test_server."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).with_name("run.sh")
PYTEST = """#!/bin/sh
printf 'said %s of %s\\n' "$*" "$CONFORMANCE_REVISION"
printf 'Total: 1 of 2 scenarios passed\\n' >>"$CONFORMANCE_SUMMARY"
exit 1
"""


def run(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(script), *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=60)


@pytest.mark.req("G-053")
def test_the_summary_is_last_and_the_verdict_is_the_exit_code(tmp_path: Path) -> None:
    for place, text in ((".venv/bin/python", PYTEST), (".ci/setup.sh", "exit 0\n")):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text, encoding="utf-8")
    (tmp_path / ".venv/bin/python").chmod(0o755)
    script = tmp_path / "tests/conformance/run.sh"
    script.parent.mkdir(parents=True)
    shutil.copyfile(RUN, script)

    ended = run(script, "server", "2025-11-25", "-k", "one or two", "-x")

    said = "-m pytest -q -p no:inline_snapshot tests/conformance/test_server.py -k one or two -x of 2025-11-25"
    assert ended.stdout.splitlines() == [f"said {said}", "Total: 1 of 2 scenarios passed"]
    assert (ended.returncode, ended.stderr) == (1, "")


def test_what_it_does_not_know_is_a_line_about_its_use() -> None:
    for wrong in ((), ("client",), ("server", "2025-03-26"), ("both", "2025-11-25"), ("2025-11-25",)):
        ended = run(RUN, *wrong)
        assert (ended.returncode, ended.stdout, ended.stderr.partition(":")[0]) == (2, "", "usage"), wrong
