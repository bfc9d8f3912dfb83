"""Size limits of servers' messages, before and while they are decoded. Pure."""

from __future__ import annotations

from moonpool_wire.jsonbounds import exceeded_bound

RESULT_BYTES_MAX = 64 * 1024 * 1024
"""The largest message an upstream may send; larger ones are discarded while they arrive."""

RESULT_CONTAINERS_MAX = 500_000
RESULT_VALUES_MAX = 2_000_000
"""Limits for objects and arrays, and for values, of one message: 64 MiB of `{}` would be 30 million objects and 2 GB of
memory.
"""

HEAD_BYTES = 1024
TAIL_BYTES = 256
"""Length of the end of an undecoded message that identifies its request."""


def too_large(bytes_max: int) -> str:
    return f"more than {bytes_max // 1024**2} MiB" if bytes_max >= 1024**2 else f"more than {bytes_max // 1024} KiB"


def exceeded_json(text: bytes) -> str | None:
    """The limit that the message `text` exceeds, or None; without decoding it."""
    return exceeded_bound(
        text,
        depth_max=RESULT_CONTAINERS_MAX,  # decoders have their own limit of depth
        containers_max=RESULT_CONTAINERS_MAX,
        values_max=RESULT_VALUES_MAX,
    )
