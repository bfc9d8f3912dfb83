"""What a replay found, as data."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject, JsonValue

DIFFERENCES_MAX: Final = 20
_SHOWN_CHARS_MAX: Final = 500


class ReplayEnd(StrEnum):
    """How far a replay got."""

    COMPLETE = "complete"  # the code ran to its end
    DIVERGED = "diverged"  # the code made a call that the record does not have
    RECORD_ENDED = "record_ended"  # the record goes no further: the execution was cut off there


@dataclass(frozen=True, slots=True, kw_only=True)
class CallShown:
    """A call, by its place among the calls of its execution."""

    number: int
    server_id: str
    tool_name: str
    arguments: JsonValue

    def to_json(self) -> JsonObject:
        return {
            "number": self.number,
            "server": self.server_id,
            "tool": self.tool_name,
            "arguments": self.arguments,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One place at which arguments differ; None: nothing is there."""

    pointer: str
    recorded: str | None
    asked: str | None

    def to_json(self) -> JsonObject:
        return {"pointer": self.pointer, "recorded": self.recorded, "asked": self.asked}


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first call that the record does not have. `recorded`: the call that it has instead, if any is left."""

    asked: CallShown
    recorded: CallShown | None
    differences: tuple[Difference, ...] = ()  # when both are of one tool

    def to_json(self) -> JsonObject:
        return {
            "asked": self.asked.to_json(),
            "recorded": None if self.recorded is None else self.recorded.to_json(),
            "differences": [one.to_json() for one in self.differences],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One thing that came out, then and now; of a text the first line that differs."""

    what: str  # `result`, `stdout`, `stderr`, `exit_code`
    same: bool
    line: int = 0
    recorded: str = ""
    replayed: str = ""

    def to_json(self) -> JsonObject:
        head: JsonObject = {"what": self.what, "same": self.same}
        if self.same:
            return head
        return {**head, "line": self.line or None, "recorded": self.recorded, "replayed": self.replayed}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionChange:
    """A recorded call, decided then and under the other policy."""

    run_id: str
    number: int
    server_id: str
    tool_name: str
    before: str  # verdict; empty when the call was refused before policy was asked
    before_rule: str
    after: str
    after_rule: str
    reason: str = ""
    note: str = ""

    @property
    def changed(self) -> bool:
        return (self.before, self.before_rule) != (self.after, self.after_rule)

    def to_json(self) -> JsonObject:
        return {
            "run_id": self.run_id,
            "number": self.number,
            "server": self.server_id,
            "tool": self.tool_name,
            "before": {"verdict": self.before, "rule": self.before_rule},
            "after": {"verdict": self.after, "rule": self.after_rule},
            "changed": self.changed,
            "reason": self.reason,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """What came of a replay. `run_id` is the execution replayed, `replay_run_id` the replay on record."""

    run_id: str
    replay_run_id: str
    end: ReplayEnd
    edited: bool = False  # other code than the recorded
    replayed: str = ""  # the execution that the rest speaks of, when one before it in its session diverged
    calls_recorded: int = 0
    calls_served: int = 0
    calls_denied: int = 0  # by the other policy, so not served
    not_made: tuple[CallShown, ...] = ()
    divergence: Divergence | None = None
    nondeterminism_divergence: str = ""
    compared: tuple[Comparison, ...] = ()
    envelope: JsonObject = field(default_factory=dict[str, "JsonValue"])  # of the replay
    decisions: tuple[DecisionChange, ...] | None = None  # None: no other policy was given
    notes: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the replay did what was recorded, as far as it was."""
        return (
            self.end is not ReplayEnd.DIVERGED
            and not self.not_made
            and not self.nondeterminism_divergence
            and all(one.same for one in self.compared)
        )

    def to_json(self) -> JsonObject:
        decisions: JsonValue = None
        if self.decisions is not None:
            decisions = [one.to_json() for one in self.decisions]
        return {
            "run_id": self.run_id,
            "replay_run_id": self.replay_run_id,
            "same": self.same,
            "end": str(self.end),
            "edited": self.edited,
            "replayed": self.replayed or self.run_id,
            "calls": {
                "recorded": self.calls_recorded,
                "served": self.calls_served,
                "denied": self.calls_denied,
                "not_made": [one.to_json() for one in self.not_made],
            },
            "divergence": None if self.divergence is None else self.divergence.to_json(),
            "nondeterminism_divergence": self.nondeterminism_divergence or None,
            "compared": [one.to_json() for one in self.compared],
            "decisions": decisions,
            "notes": list(self.notes),
            "envelope": self.envelope,
        }


def compare_texts(what: str, recorded: str, replayed: str) -> Comparison:
    """Say where two texts part."""
    if recorded == replayed:
        return Comparison(what=what, same=True)
    before, after = recorded.split("\n"), replayed.split("\n")
    at = next((at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), None)
    if at is None:
        at = min(len(before), len(after))
    return Comparison(what=what, same=False, line=at + 1, recorded=_line(before, at), replayed=_line(after, at))


def _line(lines: list[str], at: int) -> str:
    return clipped(lines[at]) if at < len(lines) else ""


def clipped(text: str) -> str:
    """Short enough for a report."""
    return text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "…"


def compare_envelopes(recorded: JsonObject, replayed: JsonObject) -> tuple[Comparison, ...]:
    """What came out, then and now. Identity, times and counts of the envelopes are not compared."""
    then, now = _result(recorded), _result(replayed)
    return (
        compare_texts("result", _output(then), _output(now)),
        compare_texts("stdout", str(then.get("stdout", "")), str(now.get("stdout", ""))),
        compare_texts("stderr", str(then.get("stderr", "")), str(now.get("stderr", ""))),
        compare_texts("exit_code", str(then.get("exit_code")), str(now.get("exit_code"))),
    )


def _result(envelope: JsonObject) -> JsonObject:
    result = envelope.get("result")
    return result if isinstance(result, dict) else {}


def _output(result: JsonObject) -> str:
    output: JsonValue = result.get("data") if result.get("ok") else {"error": result.get("error")}
    return json.dumps(output, indent=1, sort_keys=True, ensure_ascii=False)
