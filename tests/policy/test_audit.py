"""The hash chain notices every change."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.core.audit import GENESIS, AuditRow, chain_hash, record_bytes, verify_rows
from moonpool.core.audit_records import ExecutionStartRecord, time_stamp


def start(run_id: str) -> ExecutionStartRecord:
    return ExecutionStartRecord(
        run_id=run_id, trace_id="t", at="2026-11-21T00:00:00Z", principal="p", session_id="s", language="python",
        code_digest="sha256:0", environment_id="base", manifest_digest="sha256:1",
    )  # fmt: skip


def chain(run_ids: list[str]) -> list[AuditRow]:
    rows: list[AuditRow] = []
    previous = GENESIS
    for seq, run_id in enumerate(run_ids, 1):
        body = record_bytes(start(run_id))
        previous = chain_hash(previous, seq, body)
        rows.append(AuditRow(seq=seq, kind="execution_start", run_id=run_id, body=body, hash=previous))
    return rows


def test_times_of_all_records_have_one_form() -> None:
    noon = datetime(2026, 11, 21, 12, tzinfo=timezone(timedelta(hours=2)))
    assert time_stamp(noon) == "2026-11-21T10:00:00.000000Z"


def test_an_untouched_chain_verifies() -> None:
    rows = chain(["a", "b", "c"])
    outcome = verify_rows(rows, anchor=(2, rows[1].hash))
    assert (outcome.ok, outcome.rows, outcome.head) == (True, 3, rows[2].hash)


@given(st.integers(0, 4), st.sampled_from(["body", "run_id", "kind", "hash", "removed", "swapped"]))
def test_any_change_is_found_at_its_row(index: int, change: str) -> None:
    rows = chain(["a", "b", "c", "d", "e", "f"])
    if change == "body":
        rows[index] = replace(rows[index], body=rows[index].body.replace(b'"p"', b'"q"'))
    elif change == "removed":
        del rows[index]
    elif change == "swapped":
        rows[index], rows[index + 1] = rows[index + 1], rows[index]
    else:
        rows[index] = replace(rows[index], **{change: "other"})
    outcome = verify_rows(rows)
    assert not outcome.ok
    assert outcome.broken_seq in {index + 1, index + 2}
    assert outcome.why


def test_a_row_made_over_with_a_fresh_chain_is_found_by_the_anchor() -> None:
    honest, forged = chain(["a", "b", "c"]), chain(["a", "x", "c"])
    assert verify_rows(forged).ok
    assert "was rewritten" in verify_rows(forged, anchor=(3, honest[2].hash)).why


def test_a_cut_off_end_is_found_by_the_anchor() -> None:
    rows = chain(["a", "b", "c"])
    assert verify_rows(rows[:2]).ok
    assert "its end was cut off" in verify_rows(rows[:2], anchor=(3, rows[2].hash)).why


def test_a_record_is_one_line_of_canonical_json_with_its_kind() -> None:
    body = record_bytes(start("r"))
    assert body.startswith(b'{"at":"2026-11-21T00:00:00Z","backend":"","code_digest":')
    assert b'"kind":"execution_start"' in body


def test_a_record_that_holds_anything_but_names_and_numbers_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot hold bytes"):
        record_bytes(replace(start("r"), principal=b"x"))  # pyright: ignore[reportArgumentType]
