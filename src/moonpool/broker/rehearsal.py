"""A dry run's calls: those that only read are really made, all others are answered by a placeholder and listed.

`Rehearsal` belongs to one execution. It says which calls are not made, answers them, and gathers the effects of the
plan. A declared placeholder (by `server.tool` glob) wins over one made from the tool's output schema; a tool without
such a schema is answered by a text that is marked.

A reading call whose arguments rest on a placeholder is not made either: it would ask a server for what is not there.

SECURITY: what is rehearsed takes nothing in and leaves nothing: no credential, no approval, no budget. The pipeline
decides on it as on any call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from moonpool.broker.call_result import CallResult
from moonpool.broker.normalise import read_result
from moonpool.broker.phrases import storable
from moonpool.core.json import JsonObject, JsonValue, digest_json
from moonpool.core.placeholders import FOUND, Placeholder, schema_placeholder, text_placeholder
from moonpool.core.plans import (
    EFFECTS_MAX,
    SHOWN_TOTAL_CHARS_MAX,
    Effect,
    EffectKind,
    find_openings,
)
from moonpool.core.policy import glob_matches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from moonpool.broker.call_state import CallState
    from moonpool.broker.validation import SchemaCheck
    from moonpool.core.placeholders import Mark
    from moonpool.core.policy import Decision

META_KEY: Final = "moonpool/placeholder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a person may see of a call's arguments."""

    arguments: str  # without secrets; empty when they are too long
    whole: str  # all of it but for known secrets, where `arguments` is not
    redacted: Callable[[str], str]  # the same for any other text of the call's


@dataclass(slots=True, kw_only=True)
class Rehearsal:
    """The plan of one dry run, as it grows. Used on one event loop."""

    declared: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    effects: list[Effect] = field(default_factory=list[Effect])
    problem: str = ""  # why this can become no plan
    _marks: dict[str, tuple[int, Mark]] = field(default_factory=dict[str, "tuple[int, Mark]"])
    _shown_chars: int = 0

    def takes(self, passage: CallState) -> bool:
        """Whether the call is rehearsed, not made."""
        return not passage.only_reads or self._rests_on_placeholder(passage)

    def answer(self, passage: CallState, decision: Decision, shown: Shown, check: SchemaCheck) -> CallResult | str:
        """List the call and answer it; a sentence when that cannot be."""
        number = len(self.effects) + 1
        if problem := self._no_room(passage, shown):
            self.problem = self.problem or problem
            return problem
        placeholder, source = self._placeholder(passage, number, check)
        if placeholder is None:
            return source
        kind = EffectKind.READ if passage.only_reads else EffectKind.CALL
        self._list(passage, decision, shown, kind=kind, source=source)
        self._marks |= {found: (number, mark) for found, mark in placeholder.marks.items()}
        return _arrival(passage, placeholder.value, source)

    def denied(self, passage: CallState, decision: Decision, shown: Shown) -> None:
        """List a call that policy refuses, here and in the real run."""
        if not self._no_room(passage, shown):
            self._list(passage, decision, shown, kind=EffectKind.DENIED, source="")

    def _no_room(self, passage: CallState, shown: Shown) -> str:
        if len(self.effects) >= EFFECTS_MAX:
            return f"a plan has at most {EFFECTS_MAX} calls; nobody could read more. Split the work"
        if not shown.arguments or self._shown_chars + len(shown.whole or shown.arguments) > SHOWN_TOTAL_CHARS_MAX:
            return (
                f"the arguments of {passage.name} are too long for anybody to read in a plan; pass less, or run the "
                "code without a plan"
            )
        return ""

    def _list(self, passage: CallState, decision: Decision, shown: Shown, *, kind: EffectKind, source: str) -> None:
        openings, derived = find_openings(passage.spec.arguments, self._marks, shown.redacted)
        self._shown_chars += len(shown.whole or shown.arguments)
        self.effects.append(
            Effect(
                number=len(self.effects) + 1,
                kind=kind,
                server_id=storable(passage.spec.server_id),
                tool_name=storable(passage.spec.tool),
                tool_digest=passage.tool_digest,
                arguments=shown.arguments,
                whole=shown.whole,
                arguments_digest=passage.arguments_digest,
                verdict=decision.verdict,
                rule_id=storable(decision.rule_id),
                reason=storable(decision.reason),
                of_the_moment=decision.of_the_moment,
                destructive=passage.destroys,
                placeholder=source,
                openings=openings,
                derived=derived,
                code_line=passage.spec.code_line,
            )
        )

    def _rests_on_placeholder(self, passage: CallState) -> bool:
        if not self._marks:
            return False
        found = FOUND.finditer(passage.arguments_json.decode("utf-8", "replace"))
        return any(one[0] in self._marks for one in found)

    def _placeholder(self, passage: CallState, number: int, check: SchemaCheck) -> tuple[Placeholder | None, str]:
        """The value and where it came from; or None and what is wrong with the declared one."""
        tool = passage.resolved
        for glob, value in self.declared.items():
            if glob_matches(glob, passage.name):
                problem = "" if isinstance(value, str) else check.result_problem(value)
                if problem:
                    return None, f"the placeholder declared by {glob!r} does not fit {passage.name}: {problem}"
                return Placeholder(value=value), "declared"
        if tool.output_schema is None:
            return text_placeholder(number), "text"
        for whole in (True, False):
            made = schema_placeholder(tool.output_schema, number, whole=whole)
            if made is not None and isinstance(made.value, dict) and not check.result_problem(made.value):
                return made, "schema"
        passage.warnings.append("no placeholder fits the output schema; declare one")
        return text_placeholder(number), "text"


def _arrival(passage: CallState, value: JsonValue, source: str) -> CallResult:
    """As a server would have answered, and marked as none's answer."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    raw: JsonObject = {"content": [{"type": "text", "text": text}], "_meta": {META_KEY: source}}
    if isinstance(value, dict):
        raw["structuredContent"] = value
    reading = read_result(passage.spec.server_id, passage.spec.tool, raw)
    size = len(msgspec.json.encode(raw))
    return CallResult(
        raw=raw, size_bytes=size, digest=digest_json(raw), data_from=reading.data_from, error=reading.error
    )
