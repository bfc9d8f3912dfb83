"""Asking policy about a call that is not made: what would be decided, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.broker.validation import SchemaChecks, check_arguments
from moonpool.core.policy import CallFacts, Explanation, explain

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import ToolDefinition
    from moonpool.core.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class CallQuestion:
    """A call as somebody imagines it."""

    tool: ToolDefinition
    arguments: JsonObject
    trusted: bool
    principal: str
    language: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswer:
    """What policy decides. `problem`: the arguments do not fit the tool, so the call would not get as far."""

    explanation: Explanation
    problem: str


def explain_call(question: CallQuestion, policy: Policy) -> CallAnswer:
    """Decide a call without making it."""
    facts = CallFacts(
        tool=question.tool,
        arguments=question.arguments,
        trusted=question.trusted,
        principal=question.principal,
        language=question.language,
    )
    checked = check_arguments(question.tool, question.arguments, SchemaChecks().arguments(question.tool))
    return CallAnswer(explanation=explain(policy, facts), problem=checked.problem)
