"""JSON as Moonpool uses it: one type for values, one canonical form for digests."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Final, TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
"""What JSON can hold."""
JsonObject: TypeAlias = dict[str, JsonValue]
"""A JSON object."""
_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True).encode


def canonical_json(value: JsonValue) -> bytes:
    """Encode `value` so that equal values give equal bytes: sorted keys, no spaces, UTF-8.

    Raises ValueError for NaN and infinities, UnicodeEncodeError (a ValueError) for lone surrogates.
    """
    return _encode(value).encode()


def digest_bytes(data: bytes) -> str:
    """`sha256:` and 64 hex digits over `data` (H-032)."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest_json(value: JsonValue) -> str:
    """`sha256:` and 64 hex digits over the canonical form of `value`; key order and spacing do not matter (H-032)."""
    return digest_bytes(canonical_json(value))


def finite_number(text: str) -> float:
    """For `parse_float`: `1e999` is JSON, but no number that could be written again. Raises ValueError."""
    if math.isinf(number := float(text)):
        raise ValueError(f"{text[:40]} is out of range")
    return number
