"""Receipts as use cases: make one from the journal, verify one with or without a journal at hand.

A receipt is made on demand from what is on record; nothing is kept of it. Verification needs no network and no
journal; with one it also says whether the records still are where the receipt says they were.
"""

from __future__ import annotations

import base64
import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.core.audit import verify_rows
from moonpool.core.audit_records import time_stamp
from moonpool.core.json import JsonObject, JsonValue, digest_json
from moonpool.features.receipts.model import (
    ReceiptError,
    State,
    parse_receipt,
    problem_inside,
    receipt_body,
    signature_of,
    signed_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from moonpool.core.audit import AuditRow, JournalReader
    from moonpool.features.receipts.signing_keys import InstallationKeys, PublicKey

RECEIPT_BYTES_MAX: Final = 64 * 1024**2
_EXTRAS: Final = ("stdout", "stderr", "exit_code", "signal", "plan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What verification found. `problem` is empty when the receipt is good as far as it could be checked."""

    problem: str = ""
    run_id: str = ""
    key_id: str = ""
    state: str = ""
    checked: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problem

    def to_json(self) -> JsonObject:
        checked: list[JsonValue] = [*self.checked]
        return {
            "ok": self.ok,
            "problem": self.problem,
            "run_id": self.run_id,
            "key_id": self.key_id,
            "state": self.state,
            "checked": checked,
        }


def make_receipt(journal: JournalReader, keys: InstallationKeys, run_id: str) -> JsonObject:
    """The signed receipt of an execution. Raises ReceiptError, JournalError, SigningKeyError."""
    rows = journal.run(run_id)
    if not any(row.kind == "execution_start" for _, row in rows):
        raise ReceiptError(f"there is no execution {run_id[:80]!r} on record; `moonpool audit show` lists the newest")
    state = execution_states(journal, [row for _, row in rows])[run_id]
    receipt = receipt_body(rows, state=state, made_at=time_stamp(dt.datetime.now(dt.UTC)))
    receipt["key_id"] = keys.current().key_id
    key_id, signature = keys.sign(signed_bytes(receipt))
    if key_id != receipt["key_id"]:  # the key was changed in between
        receipt["key_id"] = key_id
        _, signature = keys.sign(signed_bytes(receipt))
    receipt["signature"] = base64.b64encode(signature).decode()
    return receipt


def execution_states(journal: JournalReader, rows: Iterable[AuditRow]) -> dict[str, State]:
    """By run id, the state of every execution whose start is among `rows`. Raises JournalError."""
    starts = {row.run_id: row.to_json().get("process") for row in rows if row.kind == "execution_start"}
    ended = journal.ended(list(starts))
    return {
        run_id: State.ENDED if run_id in ended else _unended(journal, run_id, mark) for run_id, mark in starts.items()
    }


def _unended(journal: JournalReader, run_id: str, mark: JsonValue) -> State:
    if journal.has(run_id, "execution_lost"):
        return State.LOST
    match journal.is_gone(mark) if isinstance(mark, str) else None:
        case True:
            return State.LOST
        case False:
            return State.RUNNING
        case _:
            return State.UNKNOWN


def verify_receipt(
    text: bytes, keys: Mapping[str, PublicKey], *, journal: JournalReader | None = None, envelope: JsonValue = None
) -> Verdict:
    """Check signature, hashes and sums, and where given the journal and the envelope.

    Raises ReceiptError when `text` is no receipt or signed by none of `keys`, JournalError when the journal cannot be
    read.
    """
    if len(text) > RECEIPT_BYTES_MAX:
        raise ReceiptError(f"this is no receipt: it is larger than {RECEIPT_BYTES_MAX:,} bytes")
    receipt = parse_receipt(text)
    key_id = receipt.get("key_id")
    key = keys.get(key_id) if isinstance(key_id, str) else None
    if key is None:
        if not isinstance(key_id, str):
            raise ReceiptError("the receipt names no key; give it as `moonpool receipt show` wrote it")
        shown = key_id[:64]
        raise ReceiptError(f"the receipt names key {shown!r}, which is not known here; give it with --key")
    checked = ["signature"]
    if not key.has_signed(signed_bytes(receipt), signature_of(receipt)):
        problem = "the signature does not fit: the receipt was changed after it was signed"
    else:
        problem = problem_inside(receipt)
        checked.append("records")
    if not problem and journal is not None:
        checked.append("journal")
        problem = _journal_problem(receipt, journal)
    if not problem and envelope is not None:
        checked.append("envelope")
        problem = _envelope_problem(receipt, envelope)
    execution = receipt.get("execution")
    run_id = execution.get("run_id") if isinstance(execution, dict) else ""
    return Verdict(
        problem=problem,
        run_id=str(run_id),
        key_id=key.key_id,
        state=str(receipt.get("state")),
        checked=tuple(checked),
    )


def _journal_problem(receipt: JsonObject, journal: JournalReader) -> str:
    """The whole chain is walked: records that fit prove little in a chain that does not."""
    records, execution = receipt["records"], receipt["execution"]
    assert isinstance(records, list)
    assert isinstance(execution, dict)
    wanted = {record["seq"]: record["hash"] for record in records if isinstance(record, dict)}
    run_id = execution["run_id"]
    found: dict[JsonValue, JsonValue] = {}

    def noted(rows: Iterable[AuditRow]) -> Iterator[AuditRow]:
        for row in rows:
            if row.run_id == run_id or row.seq in wanted:
                found[row.seq] = row.hash
            yield row

    outcome = verify_rows(noted(journal.stored_rows()))
    if not outcome.ok:
        return f"the journal is broken at record {outcome.broken_seq}: {outcome.why}"
    return _comparison(wanted, found, ended=receipt["state"] == State.ENDED)


def _comparison(wanted: Mapping[JsonValue, JsonValue], found: Mapping[JsonValue, JsonValue], *, ended: bool) -> str:
    missing = [seq for seq in wanted if seq not in found]
    if missing:
        return f"the journal has no record {missing[0]}: its end was cut off, or it is another installation's"
    other = [seq for seq in wanted if found[seq] != wanted[seq]]
    if other:
        return f"record {other[0]} of the journal is another one: it was rewritten, or it is another installation's"
    more: Sequence[JsonValue] = [seq for seq in found if seq not in wanted]
    return f"the journal has record {more[0]} of this execution, which the receipt leaves out" if more and ended else ""


def _envelope_problem(receipt: JsonObject, envelope: JsonValue) -> str:
    execution = receipt["execution"]
    digest = execution.get("envelope_digest") if isinstance(execution, dict) else ""
    if not digest:
        return "the receipt holds no digest of an envelope"
    if isinstance(envelope, dict) and isinstance(result := envelope.get("result"), dict):
        envelope = {**envelope, "result": {name: value for name, value in result.items() if name not in _EXTRAS}}
    try:
        same = digest_json(envelope) == digest
    except (ValueError, RecursionError):  # what no envelope of ours holds: `1e999`, half a surrogate pair
        same = False
    return "" if same else "the envelope is not the one that was given out"
