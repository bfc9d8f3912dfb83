"""The service on its data folder, with SQLite, killed again and again under load; replicas are in `test_replicas`."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path

import anyio
import pytest

from apps import DATA
from run_folder import run_folder

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench.service_kills import ServiceKilling  # noqa: E402  the benchmarks are no part of the distribution


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.req("H-058")
async def test_kills_of_the_service_under_load_lose_nothing() -> None:
    """A short form of `bench.service_kills` without a database's URL."""
    seed = secrets.randbits(32)
    folder = run_folder() / f"service-kills-{seed:08x}"  # sandbox uids must be able to pass through it
    folder.mkdir(mode=0o755)
    with anyio.fail_after(250):
        outcome = await ServiceKilling("", DATA, folder, seed=seed).run(3)
    assert outcome.faults == [], f"seed {seed}: {outcome.summary()}"
    assert outcome.answers > 0
