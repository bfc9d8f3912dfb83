"""The one line in which `moonpool run` answers: compact JSON, one physical line, at most 64 KiB (H-018, H-020, H-021).

Line breaks and control characters that JSON leaves alone (U+007F to U+009F, U+2028, U+2029) are escaped, because
readers split lines at them and terminals act on them. A line that would be too long is replaced by one whose result is
an `OutputTooLarge` error; JSON is never cut.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from moonpool.core.envelope import ExecutionError

if TYPE_CHECKING:
    from moonpool.core.envelope import Envelope

LINE_BYTES_MAX: Final = 64 * 1024
_ESCAPED: Final = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)}
_MESSAGE_CHARS_MAX: Final = 4000


@dataclass(frozen=True, slots=True)
class EnvelopeLine:
    """The line with its end, and whether the execution it reports succeeded."""

    line: bytes
    ok: bool


def envelope_line(envelope: Envelope) -> EnvelopeLine:
    """Encode `envelope`, or what has to stand in for it."""
    line = _encode(envelope)
    if len(line) > LINE_BYTES_MAX:
        envelope = _shortened(envelope, len(line))
        line = _encode(envelope)
    return EnvelopeLine(line, envelope.ok)


def with_files_that_fit(envelope: Envelope) -> Envelope:
    """The envelope with its files only counted, if that is what makes the line short enough."""
    made = envelope.made
    if not made.files or len(_encode(envelope)) <= LINE_BYTES_MAX:
        return envelope
    note = f"not listed, because the line would be longer than {LINE_BYTES_MAX:,} bytes"
    counted = replace(envelope, made=replace(made, files=(), more=made.more + len(made.files), note=note))
    return counted if len(_encode(counted)) <= LINE_BYTES_MAX else envelope


def _shortened(envelope: Envelope, size: int) -> Envelope:
    if envelope.error is not None:
        error = envelope.error
        return replace(
            envelope, error=replace(error, type=error.type[:200], message=error.message[:_MESSAGE_CHARS_MAX])
        )
    message = (
        f"the envelope is {size:,} bytes, but a line has at most {LINE_BYTES_MAX:,}; "
        "return a summary, or write the data to a file in /workspace"
    )
    return replace(envelope, data=None, error=ExecutionError(type="OutputTooLarge", message=message))


def _encode(envelope: Envelope) -> bytes:
    members = envelope.to_json(extras=False)
    text = json.dumps(members, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return (text.translate(_ESCAPED) + "\n").encode("utf-8", "backslashreplace")
