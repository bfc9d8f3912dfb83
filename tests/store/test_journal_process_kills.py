"""kill -9 of processes that append to one journal, two at a time: nothing acknowledged is lost, nothing stands twice.

The same of a whole host with its sandboxes: `test_journal_kills`.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from store.journals import opened_journal

if TYPE_CHECKING:
    from moonpool.core.audit import AuditRow

pytestmark = pytest.mark.anyio


@pytest.mark.req("H-058")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("kills", [5, pytest.param(100, marks=pytest.mark.slow)])
async def test_what_was_acknowledged_stands_after_kills(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, kills: int
) -> None:
    seed = secrets.randbits(32)
    acknowledged = tmp_path / "acknowledged"
    async with opened_journal(kind, request, tmp_path) as opened:
        with anyio.fail_after(120):
            command = [sys.executable, Path(__file__).with_name("appender.py"), opened.where, str(kills), str(seed)]
            ended = await anyio.to_thread.run_sync(
                lambda: subprocess.run([*command, acknowledged], capture_output=True, check=False)
            )
            assert (ended.returncode, ended.stderr) == (0, b"")
            verdict = await anyio.to_thread.run_sync(opened.reader.verify)
            rows = await opened.rows()
    assert verdict.ok, f"seed {seed}: {verdict.why}"
    stands = Counter((row.run_id, call_id_of(row)) for row in rows)
    seen = [tuple(line.split()) for line in acknowledged.read_text("ascii").splitlines()]
    assert [one for one in seen if stands[one] == 0] == [], f"seed {seed}"
    assert [one for one, count in stands.items() if count > 1] == [], f"seed {seed}"
    for run_id in {row.run_id for row in rows}:
        order = [int(call_id_of(row)) for row in rows if row.run_id == run_id]
        assert order == list(range(len(order)))
    assert len(seen) > kills, "they were killed before they did anything"


def call_id_of(row: AuditRow) -> str:
    return str(row.to_json()["call_id"])
