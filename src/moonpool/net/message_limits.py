"""How large a message of a server may be, before and while it is decoded. Pure."""

from __future__ import annotations

from moonpool_wire.jsonbounds import exceeded_bound

RESULT_BYTES_MAX = 64 * 1024 * 1024
"""The largest message an upstream may send; larger ones are discarded while they arrive."""

RESULT_CONTAINERS_MAX = 500_000
RESULT_VALUES_MAX = 2_000_000
"""Objects and arrays, and values, of one message: 64 MiB of `{}` would be 30 million objects and 2 GB of memory."""

HEAD_BYTES = 1024
TAIL_BYTES = 256
"""Of a message that is not decoded: what tells whom it answers."""


def too_large(bytes_max: int) -> str:
    return f"more than {bytes_max // 1024**2} MiB" if bytes_max >= 1024**2 else f"more than {bytes_max // 1024} KiB"


def exceeded_json(text: bytes) -> str | None:
    """Say which bound of a message `text` exceeds before it is decoded, or None."""
    return exceeded_bound(
        text,
        depth_max=RESULT_CONTAINERS_MAX,  # decoders end at a depth of their own
        containers_max=RESULT_CONTAINERS_MAX,
        values_max=RESULT_VALUES_MAX,
    )
