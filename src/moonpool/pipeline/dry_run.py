"""The calls of a dry run: reading calls are made, all others are answered by a placeholder and listed.

`Rehearsal` belongs to one execution. It says which calls are not made, answers them, and gathers the effects of the
plan. A declared placeholder (by `server.tool` glob) wins over one made from the tool's output schema; a tool without
such a schema is answered by a marked string.

A reading call whose arguments rest on a placeholder is not made either: it would ask a server for something that does
not exist.

SECURITY: a call that is not made uses no credential, no approval and no budget, and brings in no label. The pipeline
decides on it as on any call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from moonpool.core.calls import CallErrorType
from moonpool.core.json import JsonObject, JsonValue, digest_json
from moonpool.core.phrases import storable
from moonpool.core.placeholders import FOUND, Placeholder, schema_placeholder, text_placeholder
from moonpool.features.plans.model import (
    EFFECTS_MAX,
    SHOWN_TOTAL_CHARS_MAX,
    Effect,
    EffectKind,
    find_openings,
)
from moonpool.pipeline.call_result import CallResult
from moonpool.pipeline.call_state import Refusal, denial
from moonpool.pipeline.normalisation import read_result
from moonpool.pipeline.shown_calls import line_of_plan, shown
from moonpool.policy import Verdict, glob_matches

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from moonpool.core.placeholders import Mark
    from moonpool.pipeline.call_state import CallState, StageTools
    from moonpool.pipeline.shown_calls import Shown
    from moonpool.pipeline.validation import SchemaCheck
    from moonpool.policy import Decision

META_KEY: Final = "moonpool/placeholder"


@dataclass(slots=True, kw_only=True)
class Rehearsal:
    """The plan of one dry run, as it grows. Used on one event loop."""

    declared: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    effects: list[Effect] = field(default_factory=list[Effect])
    problem: str = ""  # why this can become no plan
    _marks: dict[str, tuple[int, Mark]] = field(default_factory=dict[str, "tuple[int, Mark]"])
    _shown_chars: int = 0

    def take(self, call: CallState, tools: StageTools) -> Awaitable[CallResult] | None:
        """Answer a call that may change something, and one whose arguments rest on a placeholder."""
        if call.only_reads and not self._rests_on_placeholder(call):
            return None
        call.rehearsed = True
        return self._answer(call, tools)

    def before_sending(self, call: CallState) -> None:
        """Nothing to do: a reading call is made as any other."""

    async def _answer(self, call: CallState, tools: StageTools) -> CallResult:
        """List the call, also one that policy denies here and in the real run, and answer it. Raises Refusal."""
        decision = call.decision
        assert decision is not None, "decide comes first"
        seen = await shown(call, line_of_plan, tools.redactor)
        problem = self._no_room(call, seen)
        if decision.verdict is Verdict.DENY:
            if not problem:
                self._list(call, decision, seen, kind=EffectKind.DENIED, source="")
            raise denial(decision)
        if problem:
            self.problem = self.problem or problem
            raise Refusal(CallErrorType.VALIDATION_ERROR, problem)
        number = len(self.effects) + 1
        placeholder, source = self._placeholder(call, number, tools.checks.result(call.resolved))
        kind = EffectKind.READ if call.only_reads else EffectKind.CALL
        self._list(call, decision, seen, kind=kind, source=source)
        self._marks |= {found: (number, mark) for found, mark in placeholder.marks.items()}
        return _as_answered(call, placeholder.value, source)

    def _no_room(self, call: CallState, seen: Shown) -> str:
        if len(self.effects) >= EFFECTS_MAX:
            return f"a plan has at most {EFFECTS_MAX} calls; a person has to read them. Split the work"
        if not seen.arguments or self._shown_chars + len(seen.whole or seen.arguments) > SHOWN_TOTAL_CHARS_MAX:
            return (
                f"the arguments of {call.name} are too long for a person to read in a plan; pass less, or run the "
                "code without a plan"
            )
        return ""

    def _list(self, call: CallState, decision: Decision, seen: Shown, *, kind: EffectKind, source: str) -> None:
        openings, derived = find_openings(call.spec.arguments, self._marks, seen.redacted)
        self._shown_chars += len(seen.whole or seen.arguments)
        self.effects.append(
            Effect(
                number=len(self.effects) + 1,
                kind=kind,
                server_id=storable(call.spec.server_id),
                tool_name=storable(call.spec.tool),
                tool_digest=call.tool_digest,
                arguments=seen.arguments,
                whole=seen.whole,
                arguments_digest=call.arguments_digest,
                verdict=decision.verdict,
                rule_id=storable(decision.rule_id),
                reason=storable(decision.reason),
                of_the_moment=decision.of_the_moment,
                destructive=call.destroys,
                placeholder=source,
                openings=openings,
                derived=derived,
                code_line=call.spec.code_line,
            )
        )

    def _rests_on_placeholder(self, call: CallState) -> bool:
        if not self._marks:
            return False
        found = FOUND.finditer(call.arguments_json.decode("utf-8", "replace"))
        return any(one[0] in self._marks for one in found)

    def _placeholder(self, call: CallState, number: int, check: SchemaCheck) -> tuple[Placeholder, str]:
        """The value and where it came from. Raises Refusal for a declared one that does not fit."""
        tool = call.resolved
        for glob, value in self.declared.items():
            if glob_matches(glob, call.name):
                problem = "" if isinstance(value, str) else check.result_problem(value)
                if problem:
                    told = f"the placeholder declared by {glob!r} does not fit {call.name}: {problem}"
                    raise Refusal(CallErrorType.VALIDATION_ERROR, told)
                return Placeholder(value=value), "declared"
        if tool.output_schema is None:
            return text_placeholder(number), "text"
        for whole in (True, False):
            made = schema_placeholder(tool.output_schema, number, whole=whole)
            if made is not None and isinstance(made.value, dict) and not check.result_problem(made.value):
                return made, "schema"
        call.warnings.append("no placeholder fits the output schema; declare one")
        return text_placeholder(number), "text"


def _as_answered(call: CallState, value: JsonValue, source: str) -> CallResult:
    """In the form of a server's result, and marked as a placeholder."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    raw: JsonObject = {"content": [{"type": "text", "text": text}], "_meta": {META_KEY: source}}
    if isinstance(value, dict):
        raw["structuredContent"] = value
    reading = read_result(call.spec.server_id, call.spec.tool, raw)
    size = len(msgspec.json.encode(raw))
    return CallResult(
        raw=raw, size_bytes=size, digest=digest_json(raw), data_from=reading.data_from, error=reading.error
    )
