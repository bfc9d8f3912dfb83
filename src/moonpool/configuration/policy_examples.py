"""Runs the examples of a policy file: each is decided by that file and the safe default alone, and compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.configuration.condition_entry import listed
from moonpool.core.json import canonical_json
from moonpool.core.manifest import ToolDefinition
from moonpool.policy import CallFacts, Explanation, Policy, explain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from moonpool.configuration.policy_file import ExampleEntry, PolicyFile
    from moonpool.core.json import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleOutcome:
    """What one example came to."""

    where: str  # for messages
    example: ExampleEntry
    explanation: Explanation

    @property
    def ok(self) -> bool:
        decision, example = self.explanation.decision, self.example
        return decision.verdict is example.verdict and example.rule in {None, decision.rule_id}

    def to_json(self) -> JsonObject:
        example = self.example
        return {
            "example": self.where,
            "ok": self.ok,
            "server": example.call.server,
            "tool": example.call.tool,
            "expected": str(example.verdict),
            "expected_rule": example.rule,
            "note": example.note,
            **self.explanation.to_json(),
        }


def run_examples(file: PolicyFile) -> Iterator[ExampleOutcome]:
    """Decide every example of `file`, in its order."""
    policy = Policy(layers=(file.layer,))
    for place, example in enumerate(file.examples, start=1):
        tool = ToolDefinition(
            server_id=example.call.server,
            name=example.call.tool,
            raw={"name": example.call.tool, "annotations": {**example.annotations.given()}},
        )
        facts = CallFacts(
            tool=tool,
            arguments=example.call.arguments,
            trusted=example.trusted,
            principal=example.principal,
            language=example.language,
            taken_in=frozenset(listed(example.after)),
            usage=example.usage(),
            argument_bytes=len(canonical_json(example.call.arguments)),
        )
        yield ExampleOutcome(where=f"example {place}", example=example, explanation=explain(policy, facts))
