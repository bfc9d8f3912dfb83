"""The record of one execution that was asked for by one HTTP call. Pure."""

from __future__ import annotations

import secrets
import string
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonValue

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
_ALPHABET: Final = string.ascii_letters + string.digits
_TRACE_CHARS: Final = 20


def new_trace_id() -> str:
    """`trc_` and 20 letters and digits, 119 bits: Baponi's clients take no more."""
    return "trc_" + "".join(secrets.choice(_ALPHABET) for _ in range(_TRACE_CHARS))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRecord:
    """Times in seconds since 1970. `None` of output: it runs still."""

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
