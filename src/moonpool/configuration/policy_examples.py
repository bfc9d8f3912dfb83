"""Runs the examples of a policy file: each is decided by that file and the safe default alone, and compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.core.json import canonical_json
from moonpool.core.manifest import ToolDefinition
from moonpool.policy import CallFacts, Explanation, Policy, explain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from moonpool.configuration.policy_file import PolicyExample, PolicyFile
    from moonpool.core.json import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleOutcome:
    """What one example came to."""

    example: PolicyExample
    explanation: Explanation

    @property
    def ok(self) -> bool:
        decision, example = self.explanation.decision, self.example
        return decision.verdict is example.verdict and example.rule in {None, decision.rule_id}

    def to_json(self) -> JsonObject:
        example = self.example
        return {
            "example": example.where,
            "ok": self.ok,
            "server": example.server,
            "tool": example.tool,
            "expected": str(example.verdict),
            "expected_rule": example.rule,
            "note": example.note,
            **self.explanation.to_json(),
        }


def run_examples(file: PolicyFile) -> Iterator[ExampleOutcome]:
    """Decide every example of `file`, in its order."""
    policy = Policy(layers=(file.layer,))
    for example in file.examples:
        tool = ToolDefinition(
            server_id=example.server,
            name=example.tool,
            raw={"name": example.tool, "annotations": dict(example.annotations)},
        )
        facts = CallFacts(
            tool=tool,
            arguments=example.arguments,
            trusted=example.trusted,
            principal=example.principal,
            language=example.language,
            taken_in=example.after,
            usage=example.used,
            argument_bytes=len(canonical_json(example.arguments)),
        )
        yield ExampleOutcome(example=example, explanation=explain(policy, facts))
