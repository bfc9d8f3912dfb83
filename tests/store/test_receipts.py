"""Receipts: made from the journal, verified without it, compared with it. Every change of one shows."""

from __future__ import annotations

import copy
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moonpool.core.audit import JournalError, record_bytes
from moonpool.core.audit_records import AuditRecord, ExecutionEndRecord
from moonpool.core.json import digest_json
from moonpool.features.receipts.model import ReceiptError, signed_bytes
from moonpool.features.receipts.service import Verdict, execution_states, make_receipt, verify_receipt
from moonpool.features.receipts.signing_keys import SigningKeys
from moonpool.store.journal_entries import Entry
from moonpool.store.journal_file import JournalFile
from moonpool.store.journal_reading import FileJournalReader, read_rows
from moonpool.store.process_marks import own_mark
from store.audit_records import asked, intent, outcome, start

ENVELOPE = {"run_id": "r", "result": {"ok": True, "data": 1}}


def end(run_id: str = "r") -> ExecutionEndRecord:
    return ExecutionEndRecord(
        run_id=run_id, trace_id="t", at="2026-11-21T00:00:01Z", code_digest="sha256:0", duration_ms=12.25, calls=1,
        calls_refused=0, approval="APPROVED", error_type="", output_digest="sha256:7", output_bytes=3,
        envelope_digest=digest_json(ENVELOPE),
    )  # fmt: skip


def write(path: Path, *entries: AuditRecord) -> None:
    file = JournalFile(path)
    for entry in entries:
        file.append([Entry(entry.kind, entry.run_id, record_bytes(entry))], durable=False)
    file.close()


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "private" / "audit.sqlite3"
    approved: Any = {"approval": "APPROVED", "approver": "terminal:me", "taken_in": ("private",)}
    write(
        path, start("other"), start(), intent(1), replace(intent(2), arguments_digest="sha256:9"), start("more"),
        replace(outcome(1), **approved), end(), end("other"),
    )  # fmt: skip
    return path


@pytest.fixture
def keys(tmp_path: Path) -> SigningKeys:
    return SigningKeys(tmp_path / "private" / "keys")


def verify(receipt: Any, keys: SigningKeys, **more: Any) -> Verdict:
    return verify_receipt(json.dumps(receipt).encode(), keys.known(), **more)


def test_a_receipt_holds_what_is_on_record_of_the_execution(journal: Path, keys: SigningKeys) -> None:
    receipt: Any = make_receipt(FileJournalReader(journal), keys, "r")
    execution = receipt["execution"]
    assert [record["seq"] for record in receipt["records"]] == [2, 3, 4, 6, 7]
    assert (receipt["state"], execution["code_digest"], execution["manifest_digest"]) == (
        "ended",
        "sha256:0",
        "sha256:1",
    )
    assert (execution["output_digest"], execution["envelope_digest"]) == ("sha256:7", digest_json(ENVELOPE))
    assert [(call["arguments_digest"], call["result_digest"]) for call in execution["calls"]] == [
        ("sha256:3", "sha256:4")
    ]
    assert [call["taken_in"] for call in execution["calls"]] == [["private"]]
    assert [call["call_id"] for call in execution["unsettled_calls"]] == [2]
    assert [one["approver"] for one in execution["approvals"]] == ["terminal:me"]
    assert [execution["chain"][place]["seq"] for place in ("first", "last")] == [2, 7]
    assert receipt["key_id"] == keys.current().key_id


def test_it_verifies_without_and_with_the_journal(journal: Path, keys: SigningKeys) -> None:
    receipt = make_receipt(FileJournalReader(journal), keys, "r")
    assert verify(receipt, keys) == Verdict(
        run_id="r", key_id=keys.current().key_id, state="ended", checked=("signature", "records")
    )
    assert verify(receipt, keys, journal=FileJournalReader(journal)).checked[-1] == "journal"
    keys.rotate()
    assert verify(receipt, keys, journal=FileJournalReader(journal)).ok


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, (*path, key))
    else:
        yield path


def _other(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return ("0" if not value.startswith("0") else "1") + value[1:]
        case _:
            return "x"


def _changed(receipt: Any, path: tuple[Any, ...], *, remove: bool = False) -> Any:
    changed = at = copy.deepcopy(receipt)
    for step in path[:-1]:
        at = at[step]
    if remove:
        del at[path[-1]]
    else:
        at[path[-1]] = _other(at[path[-1]])
    return changed


def _detected(receipt: Any, keys: SigningKeys) -> bool:
    try:
        return not verify(receipt, keys).ok
    except ReceiptError:
        return True


@pytest.mark.parametrize("remove", [False, True])
def test_a_change_of_any_member_shows(journal: Path, keys: SigningKeys, remove: bool) -> None:
    receipt = make_receipt(FileJournalReader(journal), keys, "r")
    paths = list(_leaves(receipt))
    assert len(paths) > 100
    assert [path for path in paths if not _detected(_changed(receipt, path, remove=remove), keys)] == []


def test_a_change_shows_also_to_whoever_signs_again(journal: Path, keys: SigningKeys) -> None:
    """What the owner of the key changes: only the time of making and the state are the signer's word alone."""
    receipt = make_receipt(FileJournalReader(journal), keys, "r")
    free = {("made_at",)}
    unnoticed: list[tuple[Any, ...]] = []
    for path in _leaves(receipt):
        if path[0] not in ("key_id", "signature"):
            changed = _changed(receipt, path)
            _sign(changed, keys)
            unnoticed += [] if _detected(changed, keys) else [path]
    assert set(unnoticed) == free


def _sign(receipt: Any, keys: SigningKeys) -> None:
    import base64

    receipt["signature"] = base64.b64encode(keys.sign(signed_bytes(receipt))[1]).decode()


def test_a_member_more_or_a_member_twice_shows(journal: Path, keys: SigningKeys) -> None:
    receipt: Any = make_receipt(FileJournalReader(journal), keys, "r")
    assert not verify({**receipt, "more": 1}, keys).ok
    twice = json.dumps(receipt)[:-1] + ', "state": "lost"}'
    with pytest.raises(ReceiptError):
        verify_receipt(twice.encode(), keys.known())


@pytest.mark.parametrize("value", ["\ud800", float("inf")])
def test_an_envelope_that_is_none_of_ours_is_not_the_one(journal: Path, keys: SigningKeys, value: Any) -> None:
    verdict = verify(make_receipt(FileJournalReader(journal), keys, "r"), keys, envelope={**ENVELOPE, "more": value})
    assert verdict.problem == "the envelope is not the one that was given out"


@pytest.mark.parametrize("piece", [b"{},", b"[],", b"10000,"])
def test_a_text_of_many_values_is_refused_before_it_is_decoded(keys: SigningKeys, piece: bytes) -> None:
    with pytest.raises(ReceiptError, match="more than"):
        verify_receipt(b'{"format": "moonpool-receipt/1", "records": [' + piece * 4_000_001 + b"0]}", keys.known())


def test_a_receipt_is_utf_8(journal: Path, keys: SigningKeys) -> None:
    text = json.dumps(make_receipt(FileJournalReader(journal), keys, "r"))
    assert verify_receipt(text.encode(), keys.known()).ok
    with pytest.raises(ReceiptError):  # its bounds are counted in bytes of UTF-8
        verify_receipt(text.encode("utf-16"), keys.known())


def test_no_receipt_is_made_of_a_record_that_holds_what_none_of_ours_does(journal: Path, keys: SigningKeys) -> None:
    with sqlite3.connect(journal) as connection:
        connection.executescript(
            "DROP TRIGGER record_is_never_updated; UPDATE record SET body = "
            """CAST('{"kind": "call_outcome", "run_id": "r", "tool_name": "\\ud800"}' AS BLOB) WHERE seq = 6"""
        )
    connection.close()
    with pytest.raises(ReceiptError, match="record 6 is not what was written"):
        make_receipt(FileJournalReader(journal), keys, "r")


def test_spaces_and_order_of_members_mean_nothing(journal: Path, keys: SigningKeys) -> None:
    receipt = make_receipt(FileJournalReader(journal), keys, "r")
    text = json.dumps(dict(reversed(receipt.items())), indent=3)
    assert verify_receipt(text.encode(), keys.known()).ok


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        pytest.param("DELETE FROM record WHERE seq >= 7", "has no record 7", id="end cut off"),
        pytest.param("UPDATE record SET hash = 'x' WHERE seq = 1", "broken at record 1", id="changed"),
    ],
)
def test_a_journal_that_does_not_fit_is_named(journal: Path, keys: SigningKeys, statements: str, problem: str) -> None:
    receipt = make_receipt(FileJournalReader(journal), keys, "r")
    with sqlite3.connect(journal) as connection:
        connection.executescript(
            f"DROP TRIGGER record_is_never_updated; DROP TRIGGER record_is_never_deleted; {statements}"
        )
    connection.close()
    assert problem in verify(receipt, keys, journal=FileJournalReader(journal)).problem


def test_another_whole_journal_is_told_apart(journal: Path, keys: SigningKeys, tmp_path: Path) -> None:
    other = tmp_path / "other" / "audit.sqlite3"
    write(other, *(start(f"x{number}") for number in range(10)))
    receipt = make_receipt(FileJournalReader(journal), keys, "r")
    assert "record 2 of the journal is another one" in verify(receipt, keys, journal=FileJournalReader(other)).problem


def test_a_receipt_that_leaves_out_a_later_record_is_told_apart(journal: Path, keys: SigningKeys) -> None:
    receipt = make_receipt(FileJournalReader(journal), keys, "r")
    write(journal, outcome(2))
    assert "has record 9 of this execution" in verify(receipt, keys, journal=FileJournalReader(journal)).problem


def test_a_record_that_is_not_what_was_written_gets_no_receipt(journal: Path, keys: SigningKeys) -> None:
    with sqlite3.connect(journal) as connection:
        connection.executescript("DROP TRIGGER record_is_never_updated; UPDATE record SET body = '{}' WHERE seq = 3;")
    connection.close()
    with pytest.raises(ReceiptError, match="record 3 is not what was written; run `moonpool audit verify`"):
        make_receipt(FileJournalReader(journal), keys, "r")


def test_the_envelope_is_compared_without_what_the_command_leaves_out(journal: Path, keys: SigningKeys) -> None:
    receipt = make_receipt(FileJournalReader(journal), keys, "r")
    whole: Any = {"run_id": "r", "result": {**ENVELOPE["result"], "stdout": "x", "exit_code": 0}}
    assert verify(receipt, keys, envelope=ENVELOPE).ok
    assert verify(receipt, keys, envelope=whole).ok
    assert "not the one that was given out" in verify(receipt, keys, envelope={**ENVELOPE, "run_id": "x"}).problem


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b"\xff", b'{"format": "moonpool-receipt/9"}', b"[" * 100_000, b"NaN"]
)
def test_what_is_no_receipt_is_one_sentence(text: bytes, keys: SigningKeys) -> None:
    with pytest.raises(ReceiptError, match="this is no receipt"):
        verify_receipt(text, keys.known())


def test_an_unknown_key_is_named(journal: Path, keys: SigningKeys) -> None:
    receipt = make_receipt(FileJournalReader(journal), keys, "r")
    with pytest.raises(ReceiptError, match=r"which is not known here; give it with --key"):
        verify_receipt(json.dumps(receipt).encode(), {})
    del receipt["key_id"]
    with pytest.raises(ReceiptError, match=r"names no key"):
        verify_receipt(json.dumps(receipt).encode(), keys.known())


def test_no_receipt_without_an_execution_or_a_journal(journal: Path, keys: SigningKeys) -> None:
    with pytest.raises(ReceiptError, match="there is no execution 'nobody' on record"):
        make_receipt(FileJournalReader(journal), keys, "nobody")
    with pytest.raises(JournalError, match="there is no audit journal"):
        make_receipt(FileJournalReader(journal.with_name("none")), keys, "r")


BOOT, SPACE, NUMBER, STARTED = own_mark().split("/")


@pytest.mark.parametrize(
    ("mark", "state"),
    [
        pytest.param(own_mark(), "running", id="this process"),
        pytest.param(f"{BOOT}/{SPACE}/{NUMBER}/{int(STARTED) + 1}", "lost", id="its number given again"),
        pytest.param(f"{BOOT}/{SPACE}/{2**22 + 1}/{STARTED}", "lost", id="a process that is gone"),
        pytest.param(f"other-boot/{SPACE}/{NUMBER}/{STARTED}", "lost", id="before the machine's restart"),
        pytest.param(f"{BOOT}/1/{NUMBER}/{STARTED}", "unknown", id="in another container"),
        pytest.param("", "unknown", id="an older record"),
        pytest.param("a/b", "unknown", id="nonsense"),
    ],
)
def test_an_execution_without_an_end_is(mark: str, state: str, tmp_path: Path, keys: SigningKeys) -> None:
    path = tmp_path / "private" / "audit.sqlite3"
    write(path, replace(start(), process=mark), intent())
    assert execution_states(FileJournalReader(path), list(read_rows(path))) == {"r": state}
    receipt: Any = make_receipt(FileJournalReader(path), keys, "r")
    assert (receipt["state"], len(receipt["execution"]["unsettled_calls"])) == (state, 1)
    assert verify(receipt, keys, journal=FileJournalReader(path)).ok


def test_what_servers_asked_meanwhile_stands_in_the_receipt(tmp_path: Path, keys: SigningKeys) -> None:
    path = tmp_path / "private" / "audit.sqlite3"
    write(path, start(), intent(1), asked(), outcome(1), end())
    receipt: Any = make_receipt(FileJournalReader(path), keys, "r")

    [question] = receipt["execution"]["questions"]
    assert (question["question_digest"], question["answer"], question["answerer"]) == (
        "sha256:8",
        "accept",
        "terminal:me",
    )
    assert verify(receipt, keys, journal=FileJournalReader(path)).ok
