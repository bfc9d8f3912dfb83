"""From rules and facts to one decision.

`layer_says` collects the verdict of each layer, by a rule or its default, or, if there is none, the safe default:
read-only tools of trusted servers are allowed, everything else is asked about (X-06). Rules about labels (`flow_says`)
and exhausted budgets (`budget_says`) add verdicts, and `settle` takes the strictest.

INVARIANT: adding a layer never loosens another's verdict, by a rule or by its default.

INVARIANT: an added verdict never replaces the default. One that only asks must not let through a call that nothing
allows.

SECURITY: a tool that its server declares destructive is allowed only if one of the rules that allow it names it;
otherwise the verdict is "ask", whether the server is trusted or not (X-22).
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from moonpool.policy.budgets import BudgetReport, Measure, budget_reports
from moonpool.policy.globs import literal_glob
from moonpool.policy.layers import LayerName
from moonpool.policy.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.policy.layers import Layer, Policy
    from moonpool.policy.rules import CallFacts, Rule

DEFAULT_RULE_ID: Final = "default"
DEFAULT_READ_RULE_ID: Final = "default:read-only"
DESTRUCTIVE_RULE_ID: Final = "default:destructive"
DEFAULT_LAYER: Final = "default"
BUDGET_LAYER: Final = "budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """One layer's verdict on a call. `remedy` says how to change it; empty: `moonpool allow`."""

    layer: str  # a `LayerName`, or another source
    verdict: Verdict
    rule_id: str
    reason: str
    remedy: str
    names_tool: bool = False  # the rule names this tool, not all tools
    room_in_s: float | None = None  # when the verdict may change by itself
    of_the_moment: bool = False  # due to earlier calls, not only to this one


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What policy decided, by which rule of which layer, and the reason as a sentence for people and for code.

    SECURITY: `reason` goes to the code that made the call and mentions only the rule that decided. `remedy` is only for
    the operator (`operators_remedy`): a model that reads how its limits are changed asks for that change.
    """

    verdict: Verdict
    rule_id: str
    reason: str
    remedy: str = ""
    layer: str = DEFAULT_LAYER
    policy_digest: str = ""
    room_in_s: float | None = None  # after that the same call may be allowed
    of_the_moment: bool = False  # the question is due to earlier calls: an earlier answer does not count


def decide(policy: Policy, facts: CallFacts) -> Decision:
    """Return the strictest verdict of all. Pure: same arguments, same decision."""
    facts = labelled(policy, facts)
    return settle(policy, facts, [*layer_says(policy, facts), *flow_says(policy, facts), *budget_says(policy, facts)])


def labelled(policy: Policy, facts: CallFacts) -> CallFacts:
    """`facts` with the policy's labels of the tool."""
    return replace(facts, does=does) if (does := policy.does(facts.tool)) else facts


def layer_says(policy: Policy, facts: CallFacts) -> list[Say]:
    """Each layer's verdict, in order; the safe default if there is none."""
    says = [say for layer in policy.layers if (say := layer_say(layer, facts)) is not None]
    return says or [_unsaid(policy, facts)]


def layer_say(layer: Layer, facts: CallFacts) -> Say | None:
    """One layer's verdict without rules about labels, or None."""
    if (rule := layer.speaker(facts)) is not None:
        return _said(layer, rule, facts)
    if layer.default is None or (layer.allow_trusted_reads and facts.hints.read_only):
        return None
    return _by_default(layer, layer.default, facts)


def flow_says(policy: Policy, facts: CallFacts) -> list[Say]:
    """The strictest verdict of each layer's rules about labels."""
    speakers = ((layer, layer.flow_speaker(facts)) for layer in policy.layers)
    return [replace(_said(layer, rule, facts), of_the_moment=True) for layer, rule in speakers if rule is not None]


def budgets_of(policy: Policy, facts: CallFacts) -> list[BudgetReport]:
    """A report on the call for every budget."""
    return list(budget_reports(policy.budgets, facts, policy.cost(facts.tool))) if policy.budgets else []


def budget_says(policy: Policy, facts: CallFacts) -> list[Say]:
    """Verdicts of budgets without room for this call; those that recover by themselves come last."""
    reports = budgets_of(policy, facts)
    says = [replace(_used_up(report), of_the_moment=True) for report in reports if report.used_up]
    return sorted(says, key=lambda say: say.room_in_s is not None)


def settle(policy: Policy, facts: CallFacts, says: Sequence[Say]) -> Decision:
    """The strictest of `says` as a decision; of equals, one that names the tool, then the first."""
    winner = max(says, key=lambda say: (say.verdict.strictness, say.names_tool))
    if winner.verdict is Verdict.ALLOW and facts.hints.declared_destructive and not winner.names_tool:
        winner = _destructive(facts, winner)
    return Decision(
        verdict=winner.verdict,
        rule_id=winner.rule_id,
        reason=winner.reason,
        remedy=winner.remedy,
        layer=winner.layer,
        policy_digest=policy.digest,
        room_in_s=winner.room_in_s,
        of_the_moment=any(say.of_the_moment and say.verdict is not Verdict.ALLOW for say in says),
    )


def operators_remedy(remedy: str, server_id: str, tool_name: str, config_file: str = "") -> str:
    """How an operator can allow the call without a question; `config_file` has its server. Empty: it is not known.

    A server that was given or registered is in no file (no absolute path): a policy file can have a rule about it.

    SECURITY: names are quoted for a shell, because people paste commands. So the text must not be changed afterwards,
    and a tool called `*` is written as a pattern that matches only it, even if its server no longer lists it.
    """
    if remedy:
        return remedy
    name = shlex.quote(f"{server_id}.{literal_glob(tool_name)}")
    if not config_file:
        return f"moonpool allow {name}"
    if not config_file.startswith("/"):
        return f"a policy file needs a rule that allows {name}"
    return f"moonpool allow {name} --config {shlex.quote(config_file)}"


def entry_remedy(rule_id: str, server_id: str, tool_name: str) -> str:
    """What to do about a rule of a server's entry that `moonpool allow` for this tool leaves there, or empty."""
    taken_back = {f"{server_id}:{verdict}:{literal_glob(tool_name)}" for verdict in (Verdict.ASK, Verdict.DENY)}
    if rule_id in taken_back or not rule_id.startswith(f"{server_id}:"):
        return ""
    return _change_entry(rule_id)


def _change_entry(rule_id: str) -> str:
    return f'change rule {rule_id!r} in the server\'s "moonpool" block'


def entry_decides(rule_id: str, server_id: str) -> bool:
    """Whether the rule is the safe default or is in the server's own entry, so that `allow` changes it."""
    return rule_id in {DEFAULT_RULE_ID, DESTRUCTIVE_RULE_ID} or rule_id.startswith(f"{server_id}:")


_VERBS: Final = {
    Verdict.ALLOW: "allows",
    Verdict.ASK: "asks before",
    Verdict.HUMAN_ONLY: "wants a person to answer for",
    Verdict.DENY: "denies",
}


def _said(layer: Layer, rule: Rule, facts: CallFacts) -> Say:
    own = layer.name is LayerName.CONFIGURATION
    whose = "" if own else f" of the {layer.name} policy"
    reason = f"rule {rule.rule_id!r}{whose} {_VERBS[rule.verdict]} {facts.name}"
    if rule.when:
        reason += " with these arguments"
    if rule.does:
        reason += f", which {' and '.join(name for name in rule.does if name in facts.does)}"
    if rule.after:
        reason += f", after this session has read what is {' and '.join(rule.after)}"
    if rule.note:
        reason += f" ({rule.note})"
    if own:
        left = entry_remedy(rule.rule_id, facts.tool.server_id, facts.tool.name)
        remedy = _change_entry(rule.rule_id) if rule.when else left
    else:
        shipped = rule.rule_id.removeprefix("preset:")
        change = f"change rule {shipped!r}" if shipped == rule.rule_id else f"take {shipped!r} out of its presets"
        remedy = f"the owner of the {layer.name} policy can {change}"
    return Say(
        layer=layer.name,
        verdict=rule.verdict,
        rule_id=rule.rule_id,
        reason=reason,
        remedy=remedy,
        names_tool=rule.names_tool,
    )


def _used_up(report: BudgetReport) -> Say:
    budget = report.budget
    remedy = f"the owner of the {budget.layer} policy can raise {report.measure} in [budget.{budget.scope}]"
    reason = report.shown("the budget has no room for this call")
    if report.adds > 1:
        reason += f", it would take {report.adds:.15g}"
    passing = report.measure is Measure.CALLS_PER_MINUTE and report.limit > 0
    if passing:
        reason += f"; wait {report.room_in_s:g} s"
    return Say(
        layer=BUDGET_LAYER,
        verdict=budget.then,
        rule_id=f"{BUDGET_LAYER}:{report.name}",
        reason=reason,
        remedy=remedy,
        room_in_s=report.room_in_s if passing else None,
    )


def _by_default(layer: Layer, verdict: Verdict, facts: CallFacts) -> Say:
    remedy = f"the owner of the {layer.name} policy can add a rule for it"
    reason = f"no rule of the {layer.name} policy matches {facts.name}, and its default is {verdict}"
    return Say(layer=layer.name, verdict=verdict, rule_id=DEFAULT_RULE_ID, reason=reason, remedy=remedy)


def _unsaid(policy: Policy, facts: CallFacts) -> Say:
    if policy.allow_trusted_reads and facts.hints.read_only:
        verdict, rule_id = Verdict.ALLOW, DEFAULT_READ_RULE_ID
        reason = f"{facts.name} only reads and its server is trusted"
    else:
        verdict, rule_id = Verdict.ASK, DEFAULT_RULE_ID
        reason = f"no rule matches {facts.name} and {_why_not_harmless(facts)}"
    return Say(layer=DEFAULT_LAYER, verdict=verdict, rule_id=rule_id, reason=reason, remedy="")


def _why_not_harmless(facts: CallFacts) -> str:
    if not facts.trusted:
        return "its server is not marked as trusted"
    if facts.hints.declared_destructive:
        return "the server declares it destructive"
    if facts.hints.read_only:
        return "policy lets no read pass without a rule"
    return "the server does not declare it read-only"


def _destructive(facts: CallFacts, winner: Say) -> Say:
    by = "the default" if winner.rule_id == DEFAULT_RULE_ID else f"rule {winner.rule_id!r}"
    reason = f"the server declares {facts.name} destructive and {by} allows it only among all tools, not by name"
    return Say(layer=winner.layer, verdict=Verdict.ASK, rule_id=DESTRUCTIVE_RULE_ID, reason=reason, remedy="")
