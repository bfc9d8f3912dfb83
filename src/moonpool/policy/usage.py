"""Usage by scope: facts for budgets. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """Which calls are counted together."""

    EXECUTION = "execution"
    SESSION = "session"
    KEY = "key"  # the principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The usage of one scope, including calls in progress."""

    calls: int = 0
    tools: int = 0
    new_tool: bool = True  # the call's tool was not used before
    argument_bytes: int = 0
    result_bytes: int = 0
    cost: float = 0.0
    wall_s: float = 0.0
    calls_per_minute: int = 0  # sent within the last minute
    room_in_s: float = 0.0  # until the oldest of these is a minute ago
