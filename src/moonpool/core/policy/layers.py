"""Layers: who may lay down rules, and how the rules of one layer become one say.

Between layers the strictest say wins, so that no layer can loosen what another one forbids. A layer of which no rule
matches says nothing. What happens when none says anything is the policy's default.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

from moonpool.core.json import digest_json
from moonpool.core.policy.verdicts import Verdict, strictest

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject
    from moonpool.core.policy.rules import CallFacts, Rule

RULES_PER_LAYER_MAX: Final = 1000
CONDITIONS_PER_LAYER_MAX: Final = 2000


class LayerName(StrEnum):
    """Who speaks."""

    ORGANISATION = "organisation"
    KEY = "key"
    SESSION = "session"
    CONFIGURATION = "configuration"  # the `moonpool` blocks of the server configuration


class Order(StrEnum):
    """Which of several matching rules of one layer speaks for it."""

    FIRST = "first"  # the first in the file
    STRICTEST = "strictest"  # the strictest, wherever it stands; of these one that names the tool


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The rules of one author."""

    name: LayerName
    rules: tuple[Rule, ...] = ()
    order: Order = Order.FIRST
    default: Verdict | None = None  # when no layer has a rule for a call
    allow_trusted_reads: bool | None = None

    def __post_init__(self) -> None:
        if len(self.rules) > RULES_PER_LAYER_MAX and self.name is not LayerName.CONFIGURATION:
            raise ValueError(f"{len(self.rules)} rules: at most {RULES_PER_LAYER_MAX} are taken")
        if sum(len(rule.when) for rule in self.rules) > CONDITIONS_PER_LAYER_MAX:
            raise ValueError(f"more than {CONDITIONS_PER_LAYER_MAX} conditions in all rules together")

    def speaker(self, facts: CallFacts) -> Rule | None:
        """The rule that speaks for this layer, if any does."""
        matching = (rule for rule in self.rules if rule.matches(facts))
        if self.order is Order.FIRST:
            return next(matching, None)
        return max(matching, key=lambda rule: (rule.verdict.strictness, rule.names_tool, rule.rule_id), default=None)

    def to_json(self) -> JsonObject:
        return {
            "layer": str(self.name),
            "order": str(self.order),
            "default": None if self.default is None else str(self.default),
            "allow_trusted_reads": self.allow_trusted_reads,
            "rules": [rule.to_json() for rule in self.rules],
        }

    @cached_property
    def digest(self) -> str:
        """`sha256:...` of everything the layer says."""
        return digest_json(self.to_json())


@dataclass(frozen=True, kw_only=True)
class Policy:
    """All layers in force for a session. Without any this is the safe default policy (X-06)."""

    layers: tuple[Layer, ...] = ()

    @cached_property
    def default(self) -> Verdict:
        """The strictest default that a layer names; ask when none does."""
        named = [layer.default for layer in self.layers if layer.default is not None]
        return strictest(named) if named else Verdict.ASK

    @cached_property
    def allow_trusted_reads(self) -> bool:
        """Read-only tools of trusted servers need no rule, unless a layer says otherwise."""
        return all(layer.allow_trusted_reads is not False for layer in self.layers)

    @cached_property
    def digest(self) -> str:
        """`sha256:...` of all layers: the version of the policy that receipts and records name."""
        return digest_json([layer.to_json() for layer in self.layers])


def configuration_layer(rules: tuple[Rule, ...]) -> Layer:
    """The layer of the `moonpool` blocks: the strictest match wins, whatever the order."""
    return Layer(name=LayerName.CONFIGURATION, rules=rules, order=Order.STRICTEST)
