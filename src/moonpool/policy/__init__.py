"""Policy: pure rules that say whether a tool call is allowed, asked about or denied.

A call is described by `CallFacts`. Layers (organisation, key, session, configuration) each hold rules; in a layer that
came from a file the first rule that matches speaks, else its `default` if it has one, in the configuration's the
strictest rule. Between layers the strictest say wins (deny > human_only > ask > allow), so that adding a layer never
loosens what another one says. When no layer says anything, read-only tools of trusted servers are allowed, everything
else is asked about (X-06).

SECURITY: three things never make a call look safer: an annotation of a server that the host does not trust (`hints`),
an argument that is not there (it meets no condition), and one that two programs may read differently (`findings`).

What is where: `verdicts`; `hints` (what may be believed about a tool); `pointers`, `members`, `conditions`, `texts`,
`paths`, `hosts` (arguments); `labels`, `budgets`; `rules` (a rule, the facts, whether they meet); `presets`; `layers`;
`deciding`; `explaining`. No I/O: files are read by `moonpool.configuration.policy_file`, usage and labels taken in are
counted by `moonpool.pipeline.budgets`. The pipeline that applies a decision is `moonpool.pipeline.pipeline`; people's
answers are `moonpool.pipeline.approval`. Why it is so: docs/decisions/0013-arguments-in-policy.md.

Where more goes: a condition on the call or its session is a field of `Rule`, a fact of `CallFacts` and a check in
`rules`; an operator on arguments a class in `conditions`; something counted elsewhere that has a say of its own is a
`Say` that joins in `decide`, as budgets do.
"""

from moonpool.policy.budgets import Budget, BudgetReport, Cost, Measure
from moonpool.policy.conditions import (
    Absent,
    ArgumentTest,
    Below,
    Condition,
    Equals,
    Glob,
    HostIn,
    OneOf,
    Range,
    Regex,
)
from moonpool.policy.deciding import (
    BUDGET_LAYER,
    DEFAULT_LAYER,
    DEFAULT_READ_RULE_ID,
    DEFAULT_RULE_ID,
    DESTRUCTIVE_RULE_ID,
    Decision,
    Say,
    budget_says,
    budgets_of,
    decide,
    entry_decides,
    entry_remedy,
    flow_says,
    labelled,
    layer_say,
    layer_says,
    operators_remedy,
    settle,
)
from moonpool.policy.explaining import Explanation, LayerReport, RuleReport, explain
from moonpool.policy.findings import Finding, UnreadableError
from moonpool.policy.globs import glob_matches, literal_glob
from moonpool.policy.hints import HINT_NAMES, Hints, effective_hints
from moonpool.policy.labels import DOES, RETURNS, Label
from moonpool.policy.layers import Layer, LayerName, Order, Policy, configuration_layer
from moonpool.policy.members import look_alikes
from moonpool.policy.presets import PRESET_PREFIX, PRESETS
from moonpool.policy.rules import RULE_ID, CallFacts, Mismatch, Rule, mismatch, server_rules
from moonpool.policy.usage import Scope, Usage
from moonpool.policy.verdicts import Verdict, strictest

__all__ = [
    "BUDGET_LAYER",
    "DEFAULT_LAYER",
    "DEFAULT_READ_RULE_ID",
    "DEFAULT_RULE_ID",
    "DESTRUCTIVE_RULE_ID",
    "DOES",
    "HINT_NAMES",
    "PRESETS",
    "PRESET_PREFIX",
    "RETURNS",
    "RULE_ID",
    "Absent",
    "ArgumentTest",
    "Below",
    "Budget",
    "BudgetReport",
    "CallFacts",
    "Condition",
    "Cost",
    "Decision",
    "Equals",
    "Explanation",
    "Finding",
    "Glob",
    "Hints",
    "HostIn",
    "Label",
    "Layer",
    "LayerName",
    "LayerReport",
    "Measure",
    "Mismatch",
    "OneOf",
    "Order",
    "Policy",
    "Range",
    "Regex",
    "Rule",
    "RuleReport",
    "Say",
    "Scope",
    "UnreadableError",
    "Usage",
    "Verdict",
    "budget_says",
    "budgets_of",
    "configuration_layer",
    "decide",
    "effective_hints",
    "entry_decides",
    "entry_remedy",
    "explain",
    "flow_says",
    "glob_matches",
    "labelled",
    "layer_say",
    "layer_says",
    "literal_glob",
    "look_alikes",
    "mismatch",
    "operators_remedy",
    "server_rules",
    "settle",
    "strictest",
]
