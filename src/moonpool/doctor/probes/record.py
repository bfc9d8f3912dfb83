"""Probes: an attack, the claim that it tests and the outcome that counts as blocked.

A `Probe` is a program that attacks from inside. A `Scene` is judged from the host: it opens sandboxes through a `Stage`
and observes them from outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.sandboxes.base import ExitOutcome, Sandbox
    from moonpool.sandboxes.host_folders import HostFolders
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
    fresh: bool = False  # needs its own sandbox, or leaves it unusable
    language: str = "python"
    quick: bool = True  # also run by `moonpool doctor` without --full
    time_limit_s: float = 60.0  # generous: the machine may be busy with several attacks


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of an attack. SECURITY: from inside, the detail is untrusted text of the guest: bounded, and only
    displayed.
    """

    blocked: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What the host received from one execution."""

    finding: Finding | None = None
    error: str | None = None  # the program failed, or took too long
    outcome: ExitOutcome | None = None  # the sandbox ended
    messages: tuple[GuestMessage, ...] = ()


class UnavailableError(Exception):
    """This machine does not have what the scene attacks, so nobody can use it. The text says why and what helps."""


class Stage(Protocol):
    """The operations available to a scene."""

    async def open_sandbox(self, *, network: bool = False, folders: HostFolders | None = None) -> Sandbox:
        """Open a sandbox for this scene; it is closed when the scene ends."""
        ...

    async def run(self, sandbox: Sandbox, program: str, *, language: str = "python") -> Heard:
        """Run an attack program, after the prelude, and return its result."""
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
    time_limit_s: float = 60.0  # generous: the machine may be busy with several attacks


AnyProbe = Probe | HostProbe
