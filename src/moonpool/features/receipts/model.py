"""A receipt: what the audit journal says of one execution, as one JSON object that can be signed. Pure.

`records` are the execution's rows with their places in the chain: each row's hash is over its number, its content and
the hash before it, so a receipt shows by itself that no record in it was changed, and beside a journal that it is the
journal's own. `execution` sums the records up for readers; verification makes it again and compares.

Keys are `moonpool.features.receipts.signing_keys`; making and verifying `moonpool.features.receipts.service`.
"""

from __future__ import annotations

import base64
import binascii
import json
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from moonpool.core.audit import AuditRow, chain_hash
from moonpool.core.errors import Fault, MoonpoolError
from moonpool.core.json import JsonObject, JsonValue, canonical_json
from moonpool_wire.jsonbounds import exceeded_bound

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT: Final = "moonpool-receipt/1"
_CONTAINERS_MAX: Final = 500_000  # ten for each of 50,000 calls
_VALUES_MAX: Final = 4_000_000
_MEMBERS: Final = ("format", "made_at", "state", "execution", "records", "key_id", "signature")
_START: Final = (
    *("trace_id", "session_id", "principal", "language", "code_digest", "environment_id", "backend", "version"),
    *("manifest_digest", "tree_digest", "policy_digest"),
)
_END: Final = ("duration_ms", "approval", "error_type", "output_digest", "envelope_digest")
_CALL: Final = (
    *("call_id", "server_id", "tool_name", "tool_digest", "arguments_digest", "verdict", "rule_id", "approval"),
    *("approver", "result_digest", "error_type"),
)
_QUESTION: Final = (
    *("server_id", "tool_name", "method", "mode", "question_digest", "verdict", "rule_id", "answer", "answerer"),
    "approver",
)
_UNASKED: Final = "NOT_REQUIRED"


class State(StrEnum):
    """How far an execution has come."""

    ENDED = "ended"
    RUNNING = "running"
    LOST = "lost"  # its process ended before it did
    UNKNOWN = "unknown"  # without an end, and nobody can tell whether it goes on


class ReceiptError(MoonpoolError):
    """A receipt cannot be made, or what was given is none. Says nothing about whether a receipt is genuine."""

    code = "receipt_unusable"
    fault = Fault.CALLER


def receipt_body(rows: Sequence[tuple[str, AuditRow]], *, state: State, made_at: str) -> JsonObject:
    """A receipt without its key and signature. `rows` are pairs of the hash before a row and the row.

    Raises ReceiptError when a row is not what was written.
    """
    records: list[JsonValue] = []
    for previous, row in rows:
        content = row.to_json()
        content.pop("seq", None)
        content.pop("hash", None)
        record: JsonObject = {"seq": row.seq, "previous": previous, "hash": row.hash, "record": content}
        if problem := _record_problem(record):
            raise ReceiptError(f"no receipt can be made: {problem}; run `moonpool audit verify`")
        records.append(record)
    return {
        "format": FORMAT,
        "made_at": made_at,
        "state": state,
        "execution": summary(records),
        "records": records,
    }


def signed_bytes(receipt: JsonObject) -> bytes:
    """What the signature is over: everything but the signature."""
    return canonical_json({name: value for name, value in receipt.items() if name != "signature"})


def parse_receipt(text: bytes) -> JsonObject:
    """Decode a receipt. Raises ReceiptError when it is none."""
    if (bound := exceeded_bound(text, containers_max=_CONTAINERS_MAX, values_max=_VALUES_MAX)) is not None:
        raise ReceiptError(f"this is no receipt: it holds {bound}")
    try:
        receipt: JsonValue = json.loads(text.decode("utf-8-sig"), parse_constant=_refuse, object_pairs_hook=_distinct)
        canonical_json(receipt)
    except (ValueError, RecursionError):
        raise ReceiptError("this is no receipt: it is not JSON; give what `moonpool receipt show` wrote") from None
    if not isinstance(receipt, dict) or receipt.get("format") != FORMAT:
        raise ReceiptError(
            f"this is no receipt of a kind known here ({FORMAT}); give what `moonpool receipt show` wrote"
        )
    return receipt


def signature_of(receipt: JsonObject) -> bytes:
    """The signature's bytes; empty when there is none that could be valid."""
    text = receipt.get("signature")
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        return b""


def problem_inside(receipt: JsonObject) -> str:
    """What does not agree within a receipt, whoever signed it; nothing when all does."""
    if odd := sorted(set(receipt) ^ set(_MEMBERS)):
        return f"it has not the members of a receipt: {', '.join(odd)[:200]}"
    records = receipt["records"]
    if not isinstance(records, list) or not records:
        return "it holds no records"
    for record in records:
        if problem := _record_problem(record):
            return problem
    seqs = [record["seq"] for record in _objects(records) if isinstance(record["seq"], int)]
    if seqs != sorted(set(seqs)):
        return "its records are not in order"
    made = summary(records)
    if made != receipt["execution"]:
        return "`execution` is not what the records say"
    if len({str(_member(record, "run_id")) for record in _objects(records)}) != 1:
        return "its records belong to several executions"
    ended = any(_member(record, "kind") == "execution_end" for record in _objects(records))
    if ended != (receipt["state"] == State.ENDED) or receipt["state"] not in list(State):
        return "`state` is not what the records say"
    return ""


def summary(records: Sequence[JsonValue]) -> JsonObject:
    """The execution in the words of its records. Members that a record lacks are empty."""
    by_kind: dict[str, list[JsonObject]] = {}
    for item in _objects(records):
        content = item.get("record")
        if isinstance(content, dict):
            by_kind.setdefault(str(content.get("kind", "")), []).append(content)
    start = (by_kind.get("execution_start") or [{}])[0]
    end = (by_kind.get("execution_end") or [{}])[-1]
    outcomes, intents = by_kind.get("call_outcome", []), by_kind.get("call_intent", [])
    settled = {_key(call) for call in outcomes}
    questions: list[JsonValue] = [
        {name: one.get(name, "") for name in _QUESTION} for one in by_kind.get("question", [])
    ]
    refused: list[JsonValue] = [one.get("refused", {}) for one in by_kind.get("calls_refused", [])]
    nothing: JsonObject = {}
    first, last = next(iter(_objects(records)), nothing), next(iter(_objects(records[::-1])), nothing)
    return {
        "run_id": start.get("run_id", _member(first, "run_id")),
        "started_at": start.get("at", ""),
        "ended_at": end.get("at", ""),
        **{name: start.get(name, "") for name in _START},
        **{name: end.get(name, "") for name in _END},
        **{name: start[name] for name in ("replay_of", "dry_run", "plan_id") if start.get(name)},
        "calls": [_call(call) for call in outcomes],
        "unsettled_calls": [
            {name: call.get(name, "") for name in _CALL} for call in intents if _key(call) not in settled
        ],
        "approvals": [
            {name: call.get(name, "") for name in ("call_id", "approval", "approver", "rule_id", "arguments_digest")}
            for call in outcomes
            if call.get("approval") not in {_UNASKED, ""}
        ],
        **({"questions": questions} if questions else {}),
        **({"refused_calls": refused} if refused else {}),
        "chain": {
            "first": {"seq": first.get("seq", 0), "hash": first.get("hash", "")},
            "last": {"seq": last.get("seq", 0), "hash": last.get("hash", "")},
        },
    }


def _call(call: JsonObject) -> JsonObject:
    """A call in a receipt; one that was not made says so."""
    shown: JsonObject = {name: call.get(name, "") for name in _CALL}
    rehearsed: JsonObject = {"rehearsed": True} if call.get("rehearsed") else {}
    task: JsonObject = {"task_id": call["task_id"]} if call.get("task_id") else {}
    return {**shown, "taken_in": call.get("taken_in", []), **rehearsed, **task}


def _record_problem(record: JsonValue) -> str:
    if not isinstance(record, dict) or set(record) != {"seq", "previous", "hash", "record"}:
        return "one of its records has not the members of a record"
    seq, previous, content = record["seq"], record["previous"], record["record"]
    if type(seq) is not int or not isinstance(previous, str) or not isinstance(content, dict):
        return "one of its records has members of the wrong kind"
    try:
        written = record["hash"] == chain_hash(previous, seq, canonical_json(content))
    except ValueError:  # half a surrogate pair, which no record of ours holds
        written = False
    if not written:
        return f"record {seq} is not what was written"
    return ""


def _key(call: JsonObject) -> tuple[str, str]:
    return str(call.get("call_id", "")), str(call.get("arguments_digest", ""))


def _objects(records: Sequence[JsonValue]) -> list[JsonObject]:
    return [record for record in records if isinstance(record, dict)]


def _member(record: JsonObject, name: str) -> JsonValue:
    content = record.get("record")
    return content.get(name, "") if isinstance(content, dict) else ""


def _refuse(name: str) -> None:
    raise ValueError(name)


def _distinct(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    """Members of an object; one that is there twice could mean one thing to us and another to somebody else."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is there twice")
    return members
