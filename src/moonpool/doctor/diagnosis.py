"""The doctor's report: one line per attack, with the claim that it tests.

A probe passes only when the attack was tried and blocked. One that fails, takes too long or cannot be judged counts as
not blocked (fail closed). Attacks in a language, or on a feature, that this host does not have are not run: nobody can
use it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class ProbeStatus(StrEnum):
    """The result of a probe."""

    PASSED = "passed"  # tried, and blocked
    FAILED = "failed"  # the attack got through
    ERROR = "error"  # could not be judged; counts as not blocked
    ABSENT = "absent"  # not run: this host does not have the language or the feature

    @property
    def words(self) -> str:
        """The text for a person, in the table and in the last line."""
        return _WORDS[self]


_WORDS: Final = {
    ProbeStatus.PASSED: "blocked",
    ProbeStatus.FAILED: "GOT THROUGH",
    ProbeStatus.ERROR: "not judged",
    ProbeStatus.ABSENT: "not played",
}
_BROKEN: Final = frozenset({ProbeStatus.FAILED, ProbeStatus.ERROR})


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
    """The doctor's findings about one backend on this machine."""

    backend: str
    environment: str
    limits_mode: str  # what limits a sandbox as a whole
    uid: int = -1  # of the host process
    languages: Mapping[str, str] = field(default_factory=dict[str, str])  # each with its version, or why it is absent
    features: Mapping[str, str] = field(default_factory=dict[str, str])  # that a session may be given, and their state
    missing: tuple[str, ...]  # each with its remedy
    advice: tuple[str, ...] = ()  # what works but could be better
    outcomes: tuple[ProbeOutcome, ...]
    attacks_left_out: int = 0  # attacks that only the full examination runs
    duration_ms: int

    @property
    def ok(self) -> bool:
        """Whether code may run here: nothing is missing and every attack was blocked."""
        return not self.missing and bool(self.outcomes) and not self.broken_claims

    @property
    def broken_claims(self) -> tuple[str, ...]:
        """Claims of THREAT_MODEL.md that do not hold, in order."""
        return tuple(sorted({outcome.claim for outcome in self.unheld}))

    @property
    def unheld(self) -> tuple[ProbeOutcome, ...]:
        """Probes that were not blocked or could not be judged."""
        return tuple(outcome for outcome in self.outcomes if outcome.status in _BROKEN)

    def summary(self) -> str:
        """One line. Missing features are not repeated."""
        if self.missing:
            return f"{self.backend}: cannot isolate code on this machine as it is"
        counts = Counter(outcome.status for outcome in self.outcomes)
        words = ", ".join(f"{counts[status]} {status.words}" for status in ProbeStatus if counts[status])
        quick = (
            f" (quick examination, --full plays {self.attacks_left_out} attacks more)" if self.attacks_left_out else ""
        )
        return (
            f"{self.backend}: {len(self.outcomes)} attacks in {self.duration_ms / 1000:.1f} s: {words or 'none played'}"
            f"{quick}; as uid {self.uid}; limits of a sandbox as a whole: {self.limits_mode}"
        )

    def to_json(self) -> dict[str, object]:
        """The report as plain JSON values."""
        return {"ok": self.ok, "broken_claims": list(self.broken_claims), **dataclasses.asdict(self)}
