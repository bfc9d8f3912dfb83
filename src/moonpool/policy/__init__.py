"""Policy: pure rules that say whether a tool call is allowed, asked about or denied.

A call is described by `CallFacts`. Layers (organisation, key, session, configuration) each hold rules; in a layer from
a file the first matching rule decides, else the layer's `default` if it has one; in the configuration's layer the
strictest matching rule decides. Of all layers the strictest verdict wins (deny > human_only > ask > allow), so adding a
layer never loosens another. If no layer decides, read-only tools of trusted servers are allowed and everything else is
asked about (X-06).

SECURITY: three things never make a call look safer: an annotation of an untrusted server (`hints`), a missing argument
(it meets no condition), and an argument that two programs may read differently (`findings`).

Modules: `verdicts`; `hints` (what policy may assume about a tool); `pointers`, `members`, `conditions`, `texts`,
`paths`, `hosts` (arguments); `labels`, `budgets`; `rules` (a rule, the facts, whether they match); `presets`; `layers`;
`deciding`; `explaining`. No I/O: files are read by `moonpool.configuration.policy_file`, `moonpool.pipeline.budgets`
counts usage and received labels. `moonpool.pipeline.pipeline` applies decisions; `moonpool.pipeline.approval` has
people's answers. Reasons: docs/decisions/0013-arguments-in-policy.md.

To extend: a condition on the call or its session is a field of `Rule`, a fact of `CallFacts` and a check in `rules`; an
operator on arguments is a class in `conditions`; anything else that influences decisions is a `Say` that `decide`
includes, as budgets are.
"""

from moonpool.policy.budgets import Budget, BudgetReport, Cost, Measure, usage_from
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
from moonpool.policy.labels import DOES, RETURNS, Does, Label, Returns
from moonpool.policy.layers import Layer, LayerName, Order, Policy, configuration_layer
from moonpool.policy.members import look_alikes
from moonpool.policy.presets import PRESET_PREFIX, PRESETS, PresetName
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
    "Does",
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
    "PresetName",
    "Range",
    "Regex",
    "Returns",
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
    "usage_from",
]
