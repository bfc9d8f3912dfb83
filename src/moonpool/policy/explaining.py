"""Explains a decision to the owner of the rules: each layer's verdict, and why rules did not match.

SECURITY: an explanation holds other rules and the call's arguments; it never goes to code in a sandbox.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.policy.deciding import Decision, budgets_of, decide, labelled, layer_say
from moonpool.policy.findings import Finding, UnreadableError
from moonpool.policy.layers import Order
from moonpool.policy.pointers import Found, find
from moonpool.policy.rules import Mismatch, mismatch
from moonpool.policy.verdicts import strictest

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.policy.budgets import BudgetReport
    from moonpool.policy.conditions import Condition
    from moonpool.policy.layers import Layer, Policy
    from moonpool.policy.rules import CallFacts, Rule
    from moonpool.policy.verdicts import Verdict

_VALUE_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleReport:
    """The state of one rule. `state`: `decides`, `matches` (another one decides), `misses`, `not reached`."""

    rule_id: str
    verdict: Verdict
    state: str
    why: str = ""

    def to_json(self) -> JsonObject:
        return {"rule": self.rule_id, "verdict": str(self.verdict), "state": self.state, "why": self.why}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerReport:
    """One layer's verdict, if it has one."""

    layer: str
    verdict: Verdict | None
    rules: tuple[RuleReport, ...]
    by_default: bool = False  # its default decides, not a rule

    def to_json(self) -> JsonObject:
        return {
            "layer": self.layer,
            "verdict": None if self.verdict is None else str(self.verdict),
            "by_default": self.by_default,
            "rules": [rule.to_json() for rule in self.rules],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A decision and its explanation."""

    decision: Decision
    layers: tuple[LayerReport, ...]
    does: frozenset[str] = frozenset()  # labels of the tool
    returns: frozenset[str] = frozenset()
    taken_in: frozenset[str] = frozenset()  # labels received by the session
    budgets: tuple[BudgetReport, ...] = ()  # those whose usage is known

    def to_json(self) -> JsonObject:
        decision = self.decision
        labels: dict[str, JsonValue] = {
            "does": [*sorted(self.does)],
            "returns": [*sorted(self.returns)],
            "taken_in": [*sorted(self.taken_in)],
        }
        return {
            "verdict": str(decision.verdict),
            "rule": decision.rule_id,
            "layer": decision.layer,
            "reason": decision.reason,
            "policy_digest": decision.policy_digest,
            "layers": [layer.to_json() for layer in self.layers],
            "labels": labels,
            "budgets": [budget.to_json() for budget in self.budgets],
        }


def explain(policy: Policy, facts: CallFacts) -> Explanation:
    """The decision of `decide`, with everything that led to it."""
    facts = labelled(policy, facts)
    return Explanation(
        decision=decide(policy, facts),
        layers=tuple(_layer_report(layer, facts) for layer in policy.layers),
        does=facts.does,
        returns=policy.returns(facts.tool),
        taken_in=facts.taken_in,
        budgets=tuple(budgets_of(policy, facts)),
    )


def _layer_report(layer: Layer, facts: CallFacts) -> LayerReport:
    speaker, flow_speaker = layer.speaker(facts), layer.flow_speaker(facts)
    reports: list[RuleReport] = []
    reached = True
    for rule in layer.rules:
        if rule.is_flow:  # evaluated in any case, in addition to the others
            reports.append(_rule_report(rule, facts, decides=rule is flow_speaker))
            continue
        if not reached:
            reports.append(RuleReport(rule_id=rule.rule_id, verdict=rule.verdict, state="not reached"))
            continue
        reports.append(_rule_report(rule, facts, decides=rule is speaker))
        reached = layer.order is Order.STRICTEST or rule is not speaker
    say = layer_say(layer, facts)
    said = [*([say.verdict] if say else []), *([flow_speaker.verdict] if flow_speaker else [])]
    verdict = strictest(said) if said else None
    by_default = speaker is None and say is not None and verdict is say.verdict
    return LayerReport(layer=layer.name, verdict=verdict, rules=tuple(reports), by_default=by_default)


def _rule_report(rule: Rule, facts: CallFacts, *, decides: bool) -> RuleReport:
    missed = mismatch(rule, facts)
    state = "decides" if decides else "misses" if missed else "matches"
    why = _why(rule, facts, missed) if missed else _unread(rule, facts)
    return RuleReport(rule_id=rule.rule_id, verdict=rule.verdict, state=state, why=why)


def _unread(rule: Rule, facts: CallFacts) -> str:
    """The unreadable argument that counts against the call, for a rule that covers it."""
    for condition in rule.when:
        finding, reason = condition.evaluate(facts.arguments)
        if finding is Finding.UNREADABLE:
            return f"{_place(condition)} counts against the call: it cannot be read for sure, because {reason}"
    return ""


def _why(rule: Rule, facts: CallFacts, missed: Mismatch) -> str:
    if missed.condition is not None:
        return _condition_why(missed, facts.arguments)
    if missed.reason:
        return f"an allow rule with conditions never takes arguments that cannot be read for sure: {missed.reason}"
    hints = {name: facts.hints.value(name) for name in rule.annotations}
    asked: dict[str, tuple[object, object]] = {
        "server": (facts.tool.server_id, rule.server),
        "tool": (facts.tool.name, rule.tool),
        "principal": (facts.principal, rule.principal),
        "language": (facts.language, list(rule.languages)),
        "trusted": (facts.trusted, rule.trusted),
        "annotations": (hints, dict(rule.annotations)),
        "does": (sorted(facts.does), list(rule.does)),
        "after": (sorted(facts.taken_in), list(rule.after)),
    }
    is_, wanted = asked[missed.what]
    return f"{missed.what} is {_shown(is_)}, the rule is for {_shown(wanted)}"


def _condition_why(missed: Mismatch, arguments: JsonValue) -> str:
    condition = missed.condition
    assert condition is not None, "only a condition fails on an argument"
    place = _place(condition)
    wanted = _shown(condition.test.to_json())
    if missed.finding is Finding.MISSING:
        return f"the arguments have no {place}; the rule wants {wanted} there"
    try:
        found = find(condition.at, arguments)
    except UnreadableError:
        found = None
    value = f"{place} is {_shown(found.value)}" if isinstance(found, Found) else f"there is something at {place}"
    if missed.finding is Finding.UNREADABLE:
        unread = f"it cannot be read for sure, because {missed.reason}"
        return f"{value}, which an allow rule never takes for {wanted}: {unread}"
    return f"{value}, the rule wants {wanted}"


def _place(condition: Condition) -> str:
    return condition.at or "the whole of the arguments"


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _VALUE_CHARS_MAX else f"{text[:_VALUE_CHARS_MAX]}…"
