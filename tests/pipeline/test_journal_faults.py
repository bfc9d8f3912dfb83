"""The pipeline over the real journal while that cannot be written: locked, disk full, a limit, a read-only folder."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from commands.process import run_command
from moonpool.pipeline.pipeline import CallPipeline
from moonpool.redaction.redactor import Redactor
from moonpool.store.journal import open_journal
from moonpool.store.journal_file import JournalFile
from moonpool.store.journal_reading import read_rows, verify_file
from pipeline.test_pipeline import Bench, type_of

TESTS = Path(__file__).parents[1]
PROGRAM = Path(__file__).with_name("faulty_journal.py")
_UNPRIVILEGED = 65534


@pytest.mark.anyio
async def test_over_a_locked_journal_nothing_leaves_and_nothing_is_handed_out(tmp_path: Path) -> None:
    path = tmp_path / "private" / "audit.sqlite3"
    bench = Bench()
    with anyio.fail_after(20):
        async with open_journal(path, busy_timeout_s=0.05) as journal:
            bench.pipeline = CallPipeline({"s": bench.upstream}, journal=journal, redactor=Redactor.of_values({}))
            blocker = sqlite3.connect(path, isolation_level=None)
            blocker.execute("BEGIN IMMEDIATE")
            written = await bench.call("write")
            assert (type_of(written), bench.upstream.calls) == ("Internal", [])
            read = await bench.call("read")
            assert (type_of(read), read.raw, len(bench.upstream.calls)) == ("Internal", None, 0)
            blocker.execute("ROLLBACK")
            blocker.close()
            assert [type_of(await bench.call(name)) for name in ("write", "read")] == ["", ""]
    assert verify_file(path).ok
    assert [row.kind for row in read_rows(path)] == ["call_intent", "call_outcome", "call_outcome"]


EXPECTED = {
    "first": "",
    "refused": "Internal",
    "read": ["Internal", None],
    "again": "Internal",
    "after": ["", ""],
    "without_intent": 0,
    "chain": True,
}


def _outcome(command: list[str | Path]) -> Any:
    """Really started: with a PYTHONPATH, and where somebody else is to mount something before."""
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", timeout=100, check=False,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_while_no_file_may_grow_nothing_leaves(tmp_path: Path) -> None:
    assert _outcome([sys.executable, PROGRAM, tmp_path, "limit"]) == EXPECTED


def test_while_the_disk_is_full_nothing_leaves(tmp_path: Path) -> None:
    mount = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    script = 'mount -t tmpfs -o size=512k,mode=755 none "$1" && shift && exec "$@"'
    probe = [*mount, script, "sh", str(tmp_path), "true"]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("no file system of its own can be mounted here")
    shell = [*mount, script, "sh", tmp_path, sys.executable, PROGRAM, tmp_path, "full"]
    assert _outcome(shell) == EXPECTED


OPENER = """
import os, sys
from pathlib import Path
from moonpool.core.audit import JournalError
from moonpool.store.journal_file import JournalFile
if os.geteuid() == 0:
    os.setuid(int(sys.argv[2]))
try:
    JournalFile(Path(sys.argv[1]))
except JournalError as error:
    print(error)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that an ordinary user can reach."""
    made = Path(tempfile.mkdtemp(prefix="moonpool-", dir="/var/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def test_in_a_folder_that_cannot_be_written_nothing_starts(folder: Path) -> None:
    """As an ordinary user: permissions do not bind root."""
    private = folder / "private"
    JournalFile(private / "audit.sqlite3").close()
    if os.geteuid() == 0:
        for path in (private, *private.iterdir()):
            os.chown(path, _UNPRIVILEGED, _UNPRIVILEGED)
    (private / "audit.sqlite3").chmod(0o400)
    private.chmod(0o500)
    done = run_command(["-c", OPENER, private / "audit.sqlite3", str(_UNPRIVILEGED)], encoding="utf-8")
    private.chmod(0o700)
    assert done.stdout.startswith(f"audit journal {private / 'audit.sqlite3'} cannot be"), done.stderr[-2000:]
    assert done.stdout.count("\n") == 1
