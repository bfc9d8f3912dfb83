"""Durations as people write them: 30m, 12h, 7d. Pure."""

from __future__ import annotations

import re
from typing import Final

from moonpool.core.errors import InputError

_DURATION: Final = re.compile(r"([1-9][0-9]{0,5})([mhd])", re.ASCII)
_UNITS_S: Final = {"m": 60.0, "h": 3600.0, "d": 86_400.0}


def duration_s(text: str) -> float:
    """Its seconds. Raises InputError."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise InputError(f"{text[:80]!r} is not a duration; give minutes, hours or days: 30m, 12h, 7d")
    return int(match[1]) * _UNITS_S[match[2]]
