"""The outcome of a call that is no execution, as `ConnectionCalls` hands it out and keeps it."""

from __future__ import annotations

from datetime import UTC, datetime
from secrets import token_hex
from typing import TYPE_CHECKING

from moonpool.core.envelope import Envelope
from moonpool.core.version import VERSION

if TYPE_CHECKING:
    from moonpool.core.json import JsonValue


def outcome_of(tool: str, run_id: str, digest: str, begun: datetime, data: JsonValue) -> Envelope:
    """What a tool came to; `digest` is that of its arguments."""
    return Envelope(
        run_id=run_id,
        trace_id=token_hex(16),
        tool_name=tool,
        tool_version=VERSION,
        input_digest=digest,
        sandbox_image="",
        duration_ms=round((datetime.now(UTC) - begun).total_seconds() * 1000),
        data=data,
    )
