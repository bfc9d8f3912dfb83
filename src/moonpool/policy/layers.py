"""Layers: rules by author, and how the rules of one layer give one verdict.

Of all layers the strictest verdict wins, so that no layer can loosen another. A layer without a matching rule has its
default as verdict, or none (`moonpool.policy.deciding`). Rules about labels are evaluated in addition to the others of
their layer: the strictest match counts as well, so that no order of rules lets a label loosen anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

from moonpool.core.json import digest_json
from moonpool.policy.budgets import COSTS_PER_LAYER_MAX, cost_of
from moonpool.policy.labels import LABELS_PER_LAYER_MAX
from moonpool.policy.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moonpool.core.json import JsonObject
    from moonpool.core.manifest import ToolDefinition
    from moonpool.policy.budgets import Budget, Cost
    from moonpool.policy.labels import Label
    from moonpool.policy.rules import CallFacts, Rule

RULES_PER_LAYER_MAX: Final = 1000
CONDITIONS_PER_LAYER_MAX: Final = 2000


class LayerName(StrEnum):
    """The source of a layer."""

    ORGANISATION = "organisation"
    KEY = "key"
    SESSION = "session"
    CONFIGURATION = "configuration"  # the `moonpool` blocks of the server configuration


class Order(StrEnum):
    """Which of several matching rules of one layer decides."""

    FIRST = "first"  # the first in the file
    STRICTEST = "strictest"  # the strictest, at any position; of equals, one that names the tool


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The rules of one author."""

    name: LayerName
    rules: tuple[Rule, ...] = ()
    order: Order = Order.FIRST
    default: Verdict | None = None  # its verdict on calls that match none of its rules; None: no verdict
    allow_trusted_reads: bool | None = None  # true: `default` does not apply to them; false: they need a rule
    labels: tuple[Label, ...] = ()
    budgets: tuple[Budget, ...] = ()
    costs: tuple[Cost, ...] = ()  # the first entry that covers a tool counts

    def __post_init__(self) -> None:
        if len(self.rules) > RULES_PER_LAYER_MAX and self.name is not LayerName.CONFIGURATION:
            raise ValueError(f"{len(self.rules)} rules: at most {RULES_PER_LAYER_MAX} are taken")
        if sum(len(rule.when) for rule in self.rules) > CONDITIONS_PER_LAYER_MAX:
            raise ValueError(f"more than {CONDITIONS_PER_LAYER_MAX} conditions in all rules together")
        if len(self.labels) > LABELS_PER_LAYER_MAX:
            raise ValueError(f"{len(self.labels)} labels: at most {LABELS_PER_LAYER_MAX} are taken")
        if len(self.costs) > COSTS_PER_LAYER_MAX:
            raise ValueError(f"{len(self.costs)} costs: at most {COSTS_PER_LAYER_MAX} are taken")

    def speaker(self, facts: CallFacts) -> Rule | None:
        """The rule that decides for this layer, if any."""
        matching = (rule for rule in self.rules if not rule.is_flow and rule.matches(facts))
        return next(matching, None) if self.order is Order.FIRST else _strictest(matching)

    def flow_speaker(self, facts: CallFacts) -> Rule | None:
        """The rule about labels that decides in addition."""
        return _strictest(rule for rule in self._flows if rule.matches(facts))

    @cached_property
    def _flows(self) -> tuple[Rule, ...]:
        return tuple(rule for rule in self.rules if rule.is_flow)

    def to_json(self) -> JsonObject:
        more: JsonObject = {
            "labels": [label.to_json() for label in self.labels],
            "budgets": [budget.to_json() for budget in self.budgets],
            "costs": [cost.to_json() for cost in self.costs],
        }
        return {
            "layer": str(self.name),
            "order": str(self.order),
            "default": None if self.default is None else str(self.default),
            "allow_trusted_reads": self.allow_trusted_reads,
            "rules": [rule.to_json() for rule in self.rules],
            **{name: entries for name, entries in more.items() if entries},
        }

    @cached_property
    def digest(self) -> str:
        """`sha256:...` of everything in the layer."""
        return digest_json(self.to_json())


@dataclass(frozen=True, kw_only=True)
class Policy:
    """All layers in force for a session. Without layers this is the safe default policy (X-06)."""

    layers: tuple[Layer, ...] = ()

    @cached_property
    def allow_trusted_reads(self) -> bool:
        """Whether read-only tools of trusted servers need no rule if no layer decides."""
        return all(layer.allow_trusted_reads is not False for layer in self.layers)

    @cached_property
    def budgets(self) -> tuple[Budget, ...]:
        """The budgets of all layers; each applies."""
        return tuple(budget for layer in self.layers for budget in layer.budgets)

    @cached_property
    def without_budgets(self) -> Policy:
        """The policy for actions that are no tool calls and so use no budgets."""
        return Policy(layers=tuple(replace(layer, budgets=()) for layer in self.layers))

    @cached_property
    def loosest(self) -> Policy:
        """What may be allowed at most, whatever the arguments are: for asking whether a tool can be called at all."""
        return Policy(layers=tuple(replace(one, budgets=(), rules=_loosest(one.rules)) for one in self.layers))

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        return tuple(label for layer in self.layers for label in layer.labels)

    def returns(self, tool: ToolDefinition) -> frozenset[str]:
        """Labels of the tool's results."""
        return frozenset(name for label in self.labels if label.covers(tool) for name in label.returns)

    def does(self, tool: ToolDefinition) -> frozenset[str]:
        """Labels of the tool's effects. A tool that its server declares destructive has `destroys` in any case."""
        declared = ["destroys"] if tool.annotations.get("destructiveHint") is True else []
        return frozenset([*declared, *(name for label in self.labels if label.covers(tool) for name in label.does)])

    def cost(self, tool: ToolDefinition) -> float:
        """The cost of one call in units: the highest of all layers."""
        return max((cost_of(tool, layer.costs) for layer in self.layers), default=0)

    @cached_property
    def digest(self) -> str:
        """`sha256:...` of all layers: the version of the policy that receipts and records name."""
        return digest_json([layer.to_json() for layer in self.layers])


def configuration_layer(rules: tuple[Rule, ...], labels: tuple[Label, ...] = ()) -> Layer:
    """The layer of the `moonpool` blocks: the strictest match wins, in any order."""
    return Layer(name=LayerName.CONFIGURATION, rules=rules, order=Order.STRICTEST, labels=labels)


def _loosest(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Conditions of rules that deny do not hold, all others do."""
    return tuple(replace(rule, when=()) for rule in rules if not (rule.when and rule.verdict is Verdict.DENY))


def _strictest(matching: Iterable[Rule]) -> Rule | None:
    return max(matching, key=lambda rule: (rule.verdict.strictness, rule.names_tool, rule.rule_id), default=None)
