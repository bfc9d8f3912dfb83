"""What the doctor found: one line for each attack, and what it stands for.

A probe passes only when the attack was tried and blocked. One that fails, takes too long or cannot be judged counts as
not held (fail closed). The attacks of a language that this host does not have are not played: nobody can use it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class ProbeStatus(StrEnum):
    """What came of a probe."""

    PASSED = "passed"  # tried, and blocked
    FAILED = "failed"  # the attack got through
    ERROR = "error"  # could not be judged; counts as not held
    ABSENT = "absent"  # not played: this host does not have the language


_BROKEN = frozenset({ProbeStatus.FAILED, ProbeStatus.ERROR})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOutcome:
    """One probe's line in the report."""

    probe_id: str
    claim: str
    title: str
    status: ProbeStatus
    detail: str
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """What the doctor found out about one backend on this machine."""

    backend: str
    environment: str
    limits_mode: str  # what bounds a sandbox as a whole
    uid: int = -1  # of the host process
    languages: Mapping[str, str] = field(default_factory=dict[str, str])  # each with its version, or why it is absent
    missing: tuple[str, ...]  # each with its remedy
    advice: tuple[str, ...] = ()  # what holds, and could be better
    outcomes: tuple[ProbeOutcome, ...]
    duration_ms: int

    @property
    def ok(self) -> bool:
        """Whether code may run here: nothing is missing and every attack was blocked."""
        return not self.missing and bool(self.outcomes) and not self.broken_claims

    @property
    def broken_claims(self) -> tuple[str, ...]:
        """Claims of THREAT_MODEL.md that do not hold, in order."""
        return tuple(sorted({o.claim for o in self.outcomes if o.status in _BROKEN}))

    def rows(self) -> tuple[tuple[str, str, str, str, str], ...]:
        """For a table: id, claim, what was tried, status, detail."""
        return tuple((o.probe_id, o.claim, o.title, o.status.value, o.detail) for o in self.outcomes)

    def summary(self) -> str:
        """One line."""
        if self.missing:
            return f"{self.backend}: cannot isolate code on this machine: " + "; ".join(self.missing)
        counts = Counter(outcome.status for outcome in self.outcomes)
        words = ", ".join(f"{counts[status]} {status.value}" for status in ProbeStatus if counts[status])
        return (
            f"{self.backend}: {len(self.outcomes)} probes in {self.duration_ms / 1000:.1f} s: {words or 'none ran'}; "
            f"as uid {self.uid}; limits of a sandbox as a whole: {self.limits_mode}"
        )

    def to_json(self) -> dict[str, object]:
        """The report as plain JSON values."""
        return {"ok": self.ok, "broken_claims": list(self.broken_claims), **dataclasses.asdict(self)}
