"""Kills of the service while threads are written, on both kinds of stores: short forms of `bench.thread_kills`."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from apps import DATA
from run_folder import run_folder

if TYPE_CHECKING:
    from service_stores import Stores

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench.thread_kills import ThreadKilling  # noqa: E402  the benchmarks are no part of the distribution


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.req("J-022", "J-041", "J-047")
async def test_kills_under_writes_tear_no_thread_and_lose_nothing(stores: Stores) -> None:
    seed = secrets.randbits(32)
    folder = run_folder() / f"thread-kills-{seed:08x}"  # sandbox uids must be able to pass through it
    folder.mkdir(mode=0o755)
    environ = {**stores.environ, "MOONPOOL_FILES_URL": stores.files_url} if stores.files_url else {}
    with anyio.fail_after(280):
        outcome = await ThreadKilling(environ, DATA, folder, seed=seed).run(3)
    assert outcome.faults == [], f"seed {seed}: {outcome.summary()}"
    assert outcome.executions > 0
    assert outcome.uploads > 0
