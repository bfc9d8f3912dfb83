"""kill -9 of a busy host at random instants: a short form of `bench.kills`."""

from __future__ import annotations

import json
import secrets
import shutil
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from apps import fresh_data
from moonpool.core.audit import record_bytes
from moonpool.core.json import digest_json
from moonpool.store.journal_entries import Entry
from moonpool.store.journal_file import JournalFile
from moonpool.store.journal_reading import verify_file
from moonpool.store.paths import journal_path
from store.audit_records import intent

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench.kills import Killing  # noqa: E402  the benchmarks are no part of the distribution


@pytest.mark.req("H-058")
@pytest.mark.parametrize("kills", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_kills_at_random_instants_lose_no_intent_and_break_no_chain(tmp_path: Path, kills: int) -> None:
    seed = secrets.randbits(32)
    data = Path(f"/var/tmp/moonpool-kills-{seed:08x}")  # sandbox uids must be able to pass through it
    fresh_data(data)
    try:
        killing = Killing(data, tmp_path, seed=seed)
        outcome = killing.run(kills)
        while not outcome.calls_seen and outcome.kills < kills + 10:  # one of ten is killed while it starts
            outcome = killing.run(1)
        chain = verify_file(journal_path(data))
    finally:
        shutil.rmtree(data, ignore_errors=True)
    assert outcome.faults == [], f"seed {seed}"
    assert chain.ok
    assert outcome.kills >= kills
    assert outcome.calls_seen > 0
    if kills > 10:  # of fewer all may have met the same state
        assert outcome.states["ended"] > 0
        assert outcome.states["lost"] > 0, outcome.summary()


def test_the_check_sees_what_is_lost_and_what_is_cut_off(tmp_path: Path) -> None:
    path = journal_path(tmp_path)
    file = JournalFile(path)
    for run_id in ("a", "b"):
        entry = replace(intent(1, run_id), arguments_digest=digest_json({"token": run_id}))
        file.append([Entry(entry.kind, run_id, record_bytes(entry))], durable=False)
    file.close()
    killing = Killing(tmp_path, tmp_path, seed=1)
    lines = [json.dumps({"tool": "put", "arguments": {"token": token}}) for token in ("a", "b", "c")]
    (tmp_path / "seen.jsonl").write_text("\n".join(lines), encoding="utf-8")  # the last one was cut off in the middle
    killing.look("first")
    assert killing.outcome.faults == []
    (tmp_path / "seen.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    killing.look("second")
    assert killing.outcome.faults == ["second: 1 calls were seen without an intent, first {'token': 'c'}"]
    with sqlite3.connect(path) as connection:
        connection.executescript("DROP TRIGGER record_is_never_deleted; DELETE FROM record WHERE seq = 2;")
    connection.close()
    killing.look("third")
    assert "its end was cut off" in killing.outcome.faults[1]
