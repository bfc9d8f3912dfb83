"""What a probe is: a record of an attack, its target claim and the outcome that means "held".

A `Probe` is a program that attacks from inside. A `Scene` needs the host's eyes: it opens sandboxes through a `Stage`
and judges what it sees from outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.sandboxes.base import ExitOutcome, Sandbox
    from moonpool.sandboxes.messages import GuestMessage


class Expected(StrEnum):
    """What must happen for the claim to hold."""

    BLOCKED = "blocked"  # the program runs to its end and reports that nothing got through
    DISCARDED = "discarded"  # the host ends the sandbox for breaking the protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One attack from inside. `program` runs after the prelude of its language (`prelude.compose`)."""

    probe_id: str
    claim: str
    title: str
    program: str
    expected: Expected = Expected.BLOCKED
    fresh: bool = False  # needs, or spoils, a sandbox of its own
    language: str = "python"
    quick: bool = True  # played by `moonpool doctor` without --full, too
    time_limit_s: float = 60.0  # a bound, not a measure: the machine may be busy with several attacks


@dataclass(frozen=True, slots=True)
class Finding:
    """What an attack found. SECURITY: from inside, the detail is the guest's text: bounded, shown, never obeyed."""

    blocked: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What the host heard of one execution."""

    finding: Finding | None = None
    error: str | None = None  # the program failed, or took too long
    outcome: ExitOutcome | None = None  # the sandbox ended
    messages: tuple[GuestMessage, ...] = ()


class Stage(Protocol):
    """What a scene may do."""

    async def open_sandbox(self) -> Sandbox:
        """A sandbox of this scene's own; closed when the scene is over."""
        ...

    async def run(self, sandbox: Sandbox, program: str, *, language: str = "python") -> Heard:
        """Run an attack program, after the prelude, and say what came of it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProbe:
    """One attack judged from outside."""

    probe_id: str
    claim: str
    title: str
    play: Callable[[Stage], Awaitable[Finding]]
    language: str = "python"  # one that the host must have besides Python
    quick: bool = True
    time_limit_s: float = 60.0  # a bound, not a measure: the machine may be busy with several attacks


AnyProbe = Probe | HostProbe
