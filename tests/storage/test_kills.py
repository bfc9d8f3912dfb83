"""kill -9 of a process that commits, at any instant: the thread is whole, and nothing acknowledged is lost."""

from __future__ import annotations

import secrets
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from storage.committer import LARGE_BYTES, opened
from storage.worlds import THREAD, contents

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kills", [3, pytest.param(25, marks=pytest.mark.slow)])
async def test_a_thread_is_old_or_new_after_kills(tmp_path: Path, kills: int) -> None:
    seed, acknowledged = secrets.randbits(32), tmp_path / "acknowledged"
    with anyio.fail_after(280):
        command = [sys.executable, Path(__file__).with_name("committer.py"), tmp_path / "data", str(kills), str(seed)]
        ended = await anyio.to_thread.run_sync(
            lambda: subprocess.run([*command, acknowledged], capture_output=True, check=False)
        )
        assert (ended.returncode, ended.stderr) == (0, b""), f"seed {seed}"
        told = [int(line) for line in acknowledged.read_text("ascii").split()]
        async with opened(tmp_path / "data") as trees, trees.of("acme").hold(THREAD, "trc_2") as held:
            found = await contents(held.snapshot)  # compares every digest
    count = int(found["count"])
    assert told == sorted(set(told)), f"seed {seed}: nothing is told twice"
    assert count in {told[-1], told[-1] + 1}, f"seed {seed}: {told[-1]} was told, {count} stands"
    assert held.snapshot.version == count, f"seed {seed}"
    wanted = {f"folder/{number % 7}": str(number).encode() for number in range(max(1, count - 6), count + 1)}
    large = {"large": str(count).encode().rjust(LARGE_BYTES)} if count % 3 == 0 else {}
    assert found == {"count": str(count).encode(), **wanted, **large}, f"seed {seed}"
