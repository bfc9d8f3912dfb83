"""The record of one execution that was asked for by one HTTP call. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import re
import secrets
import string
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal

from moonpool.core.audit_records import time_stamp
from moonpool.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from moonpool.core.json import JsonObject, JsonValue

Status = Literal["running", "success", "failed", "timeout", "blocked", "oom", "cancelled"]
"""`failed` is also the end of an execution whose service ended before it: its `error` is `lost`. Baponi's clients wait
for one of these, and would wait forever for another word.
"""
DeliveryMode = Literal["inline", "streaming", "webhook"]
WebhookStatus = Literal["pending", "delivered", "failed"]
STREAM_BYTES_MAX: Final = 1024**2
"""Kept of each of stdout and stderr."""
KEPT_S: Final = 7 * 24 * 3600.0
KEPT_COUNT_MAX: Final = 10_000
"""Records of one organisation; the oldest go first."""
KEPT_OUTPUT_BYTES_MAX: Final = 1024**3
"""What the output of one organisation's records takes, likewise."""
LISTED_MAX: Final = 100
LOST: Final = "lost"
"""The error of an execution whose service ended before it."""
TRACE_ID: Final = re.compile(r"trc_[a-zA-Z0-9_-]{1,20}", re.ASCII)
_ALPHABET: Final = string.ascii_letters + string.digits
_TRACE_CHARS: Final = 20


def new_trace_id() -> str:
    """`trc_` and 20 letters and digits, 119 bits: Baponi's clients take no more."""
    return "trc_" + "".join(secrets.choice(_ALPHABET) for _ in range(_TRACE_CHARS))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRecord:
    """Times in seconds since 1970. `None` of output: it runs still, or is one of a list."""

    trace_id: str
    principal: str
    run_id: str
    language: str
    delivery_mode: DeliveryMode
    status: Status = "running"
    thread_id: str | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict[str, "JsonValue"])
    exit_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None
    output_truncated: bool = False
    error: str | None = None  # see Baponi's list; None: none, or the code's own
    duration_ms: int = 0
    created_at: float
    completed_at: float | None = None
    webhook_url: str | None = None
    webhook_status: WebhookStatus | None = None
    last_seq: int = 0  # of its stream: the number of the line with its result

    @property
    def is_over(self) -> bool:
        return self.status != "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which records, the newest first."""

    limit: int = 50
    cursor: str | None = None
    status: str | None = None
    thread_id: str | None = None
    since: float | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """Records without their output; `next_cursor` None: there are no older ones."""

    records: Sequence[ExecutionRecord]
    next_cursor: str | None


def status_body(record: ExecutionRecord, *, with_output: bool = True) -> JsonObject:
    """What Baponi's clients call an ExecutionStatus, and a webhook is sent."""
    body: JsonObject = {
        "trace_id": record.trace_id,
        "status": record.status,
        "exit_code": record.exit_code,
        "error": record.error,
        "duration_ms": record.duration_ms,
        "delivery_mode": record.delivery_mode,
        "language": record.language,
        "thread_id": record.thread_id,
        "metadata": dict(record.metadata),
        "created_at": _time(record.created_at),
        "completed_at": None if record.completed_at is None else _time(record.completed_at),
    }
    if with_output:
        body |= {"stdout": record.stdout, "stderr": record.stderr, "output_truncated": record.output_truncated}
    if record.webhook_url is not None:
        body |= {"webhook_url": record.webhook_url, "webhook_delivery_status": record.webhook_status}
    return body


def labels_of(metadata: Mapping[str, JsonValue]) -> dict[str, str]:
    """What records can be found by: the members that are no lists or objects, as JSON in ASCII."""
    return {key: json.dumps(value) for key, value in metadata.items() if not isinstance(value, (list, dict))}


def sought_labels(value: str) -> tuple[str, ...]:
    """What `value` of a query may stand for: a text, or a number, true, false or null."""
    try:
        other = json.loads(value)
    except (ValueError, RecursionError):
        other = value
    is_plain = other is None or isinstance(other, (bool, int, float))
    return (json.dumps(value), json.dumps(other)) if is_plain else (json.dumps(value),)


def cursor_of(last: ExecutionRecord, query: RunQuery, whose: str | None) -> str:
    """Where the next page of `query` begins. It is good for that query alone."""
    place = json.dumps([_digest(query, whose), last.created_at, last.trace_id], separators=(",", ":"))
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def place_of(cursor: str, query: RunQuery, whose: str | None) -> tuple[float, str]:
    """Raises InputError for a cursor that is none, or of another query."""
    refused = InputError("this cursor is not of this query; begin without one")
    try:
        digest, created_at, trace_id = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise refused from None
    if not (isinstance(created_at, float) and isinstance(trace_id, str)):
        raise refused
    if digest != _digest(query, whose) or not math.isfinite(created_at) or TRACE_ID.fullmatch(trace_id) is None:
        raise refused
    return created_at, trace_id


def _digest(query: RunQuery, whose: str | None) -> str:
    asked = [whose, query.status, query.thread_id, query.since, sorted(query.metadata.items())]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


def _time(seconds: float) -> str:
    return time_stamp(datetime.fromtimestamp(seconds, UTC))
