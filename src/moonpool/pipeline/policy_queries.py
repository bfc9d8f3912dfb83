"""Queries to policy about a hypothetical call: what would be decided, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moonpool.pipeline.validation import SchemaChecks, check_arguments
from moonpool.policy import CallFacts, Explanation, explain, usage_from

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import ToolDefinition
    from moonpool.policy import Measure, Policy, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class CallQuestion:
    """A hypothetical call."""

    tool: ToolDefinition
    arguments: JsonObject
    trusted: bool
    principal: str
    language: str
    taken_in: frozenset[str] = frozenset()
    used: Mapping[Scope, Mapping[Measure, float]] = field(default_factory=dict["Scope", "Mapping[Measure, float]"])


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswer:
    """What policy decides. `problem`: the arguments do not fit the tool, so the call would not get as far."""

    explanation: Explanation
    problem: str


def explain_call(question: CallQuestion, policy: Policy) -> CallAnswer:
    """Decide a call without making it."""
    checked = check_arguments(question.tool, question.arguments, SchemaChecks().arguments(question.tool))
    facts = CallFacts(
        tool=question.tool,
        arguments=question.arguments,
        trusted=question.trusted,
        principal=question.principal,
        language=question.language,
        taken_in=question.taken_in,
        usage=usage_from(question.used),
        argument_bytes=len(checked.encoded),
    )
    return CallAnswer(explanation=explain(policy, facts), problem=checked.problem)
