"""Rules about labels only tighten, and a budget says its say exactly when a call has no room."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.core.manifest import ToolDefinition
from moonpool.policy import (
    DOES,
    PRESETS,
    RETURNS,
    Budget,
    CallFacts,
    Cost,
    Label,
    Layer,
    LayerName,
    Measure,
    Policy,
    Rule,
    Scope,
    Usage,
    Verdict,
    budgets_of,
    configuration_layer,
    decide,
    explain,
)
from tables import every_row

MAIL = ToolDefinition(server_id="mail", name="send", raw={"name": "send"})
ALLOW = Rule(rule_id="all", verdict=Verdict.ALLOW)
SENDS = Label(server="mail", tool="send", does=("sends_out",))


def organisation(*rules: Rule, **more: Any) -> Layer:
    return Layer(name=LayerName.ORGANISATION, rules=rules, **more)


def flow(verdict: Verdict, *, after: tuple[str, ...] = (), does: tuple[str, ...] = (), **more: Any) -> Rule:
    return Rule(rule_id="flow", verdict=verdict, after=after, does=does, **more)


AFTER_UNTRUSTED = flow(Verdict.ASK, after=("untrusted",), does=("sends_out",))


@pytest.mark.req("D-018")
@every_row(
    ("rules", "taken_in", "expected"),
    [
        pytest.param([AFTER_UNTRUSTED, ALLOW], [], "allow", id="nothing was taken in"),
        pytest.param([AFTER_UNTRUSTED, ALLOW], ["untrusted"], "ask", id="after untrusted it asks"),
        pytest.param([AFTER_UNTRUSTED, ALLOW], ["private"], "allow", id="another label is none"),
        pytest.param([ALLOW, AFTER_UNTRUSTED], ["untrusted"], "ask", id="an allow rule in front does not spare it"),
        pytest.param(
            [AFTER_UNTRUSTED, replace(ALLOW, verdict=Verdict.DENY)], ["untrusted"], "deny",
            id="it does not stand in front of a deny rule",
        ),
        pytest.param([*PRESETS["no-exfiltration"], ALLOW], ["untrusted"], "allow", id="preset: one alone"),
        pytest.param([*PRESETS["no-exfiltration"], ALLOW], RETURNS, "human_only", id="preset: both"),
        pytest.param([flow(Verdict.DENY, does=("spends", "sends_out")), ALLOW], [], "deny", id="any of does"),
        pytest.param([flow(Verdict.DENY, does=("spends",)), ALLOW], [], "allow", id="does another thing"),
        pytest.param([flow(Verdict.DENY, after=("private",)), ALLOW], ["private"], "deny", id="after alone: any call"),
        pytest.param([replace(AFTER_UNTRUSTED, server="web"), ALLOW], RETURNS, "allow", id="of another server"),
    ],
)  # fmt: skip
def test_a_rule_about_labels_speaks_beside_the_others(rules: list[Rule], taken_in: list[str], expected: str) -> None:
    policy = Policy(layers=(organisation(*rules, labels=(SENDS,)),))
    assert decide(policy, CallFacts(tool=MAIL, taken_in=frozenset(taken_in))).verdict == expected


def test_a_rule_that_asks_about_labels_does_not_spare_a_call_the_default_that_denies() -> None:
    policy = Policy(layers=(organisation(AFTER_UNTRUSTED, labels=(SENDS,), default=Verdict.DENY),))
    assert decide(policy, CallFacts(tool=MAIL, taken_in=frozenset(RETURNS))).verdict is Verdict.DENY


def test_a_tool_that_its_server_declares_destructive_destroys_without_a_label() -> None:
    drop = ToolDefinition(server_id="db", name="drop", raw={"name": "drop", "annotations": {"destructiveHint": True}})
    named = replace(ALLOW, tool="drop")
    policy = Policy(layers=(organisation(flow(Verdict.HUMAN_ONLY, does=("destroys",)), named),))
    assert decide(policy, CallFacts(tool=drop)).verdict is Verdict.HUMAN_ONLY


def test_the_remedy_against_a_preset_is_to_do_without_it() -> None:
    policy = Policy(layers=(organisation(*PRESETS["no-exfiltration"], ALLOW, labels=(SENDS,)),))
    decision = decide(policy, CallFacts(tool=MAIL, taken_in=frozenset(RETURNS)))
    assert decision.remedy == "the owner of the organisation policy can take 'no-exfiltration' out of its presets"


def test_the_sentence_names_what_the_call_does_and_what_was_read() -> None:
    policy = Policy(layers=(organisation(replace(AFTER_UNTRUSTED, verdict=Verdict.DENY), labels=(SENDS,)),))
    decision = decide(policy, CallFacts(tool=MAIL, taken_in=frozenset({"untrusted"})))
    assert decision.reason.startswith(
        "rule 'flow' of the organisation policy denies mail.send, which sends_out, "
        "after this session has read what is untrusted"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"verdict": Verdict.ALLOW, "after": ("private",)}, id="allow after"),
        pytest.param({"verdict": Verdict.ALLOW, "does": ("spends",)}, id="allow what spends"),
        pytest.param({"verdict": Verdict.DENY, "after": ("secret",)}, id="unknown returns"),
        pytest.param({"verdict": Verdict.DENY, "does": ("sends",)}, id="unknown does"),
    ],
)
def test_a_rule_that_would_loosen_or_knows_no_such_label_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="label"):
        Rule(rule_id="r", **wrong)


LABELS = st.builds(
    Label,
    server=st.sampled_from(["*", "mail", "web"]),
    tool=st.sampled_from(["*", "send", "read"]),
    returns=st.lists(st.sampled_from(RETURNS), max_size=2).map(tuple),
    does=st.lists(st.sampled_from(DOES), max_size=3).map(tuple),
)
PLAIN = st.builds(
    Rule, rule_id=st.just("plain"), verdict=st.sampled_from(Verdict), tool=st.sampled_from(["*", "send", "read"])
)
FLOWS = st.builds(
    Rule,
    rule_id=st.just("flow"),
    verdict=st.sampled_from([Verdict.ASK, Verdict.HUMAN_ONLY, Verdict.DENY]),
    tool=st.sampled_from(["*", "send", "read"]),
    after=st.lists(st.sampled_from(RETURNS), max_size=2).map(tuple),
    does=st.lists(st.sampled_from(DOES), min_size=1, max_size=2).map(tuple),
)
LAYERS = st.builds(
    Layer,
    name=st.sampled_from(LayerName),
    rules=st.lists(PLAIN | FLOWS, max_size=5).map(tuple),
    default=st.sampled_from([None, *Verdict]),
    labels=st.lists(LABELS, max_size=3).map(tuple),
)
TAKEN_IN = st.frozensets(st.sampled_from(RETURNS))
TOOLS = st.builds(
    lambda server, name, hints: ToolDefinition(server_id=server, name=name, raw={"name": name, "annotations": hints}),
    st.sampled_from(["mail", "web"]),
    st.sampled_from(["send", "read"]),
    st.dictionaries(st.sampled_from(["readOnlyHint", "destructiveHint"]), st.booleans()),
)


@given(
    layers=st.lists(LAYERS, max_size=3), tool=TOOLS, trusted=st.booleans(), had=TAKEN_IN, more=TAKEN_IN, label=LABELS
)
def test_law_labels_only_make_a_decision_stricter(
    layers: list[Layer], tool: ToolDefinition, trusted: bool, had: frozenset[str], more: frozenset[str], label: Label
) -> None:
    facts = CallFacts(tool=tool, trusted=trusted, taken_in=had)
    before = decide(Policy(layers=tuple(layers)), facts)
    labelled = configuration_layer((), (label,))
    after = decide(Policy(layers=(*layers, labelled)), replace(facts, taken_in=had | more))
    assert after.verdict.strictness >= before.verdict.strictness


def budget(then: Verdict = Verdict.DENY, scope: Scope = Scope.SESSION, **limits: float) -> Budget:
    return Budget(
        scope=scope, limits={Measure(name): limit for name, limit in limits.items()}, then=then, layer="organisation"
    )


def with_budget(one: Budget, **more: Any) -> Policy:
    return Policy(layers=(organisation(ALLOW, budgets=(one,), **more),))


@every_row(
    ("limits", "usage", "expected"),
    [
        pytest.param({"calls": 3}, Usage(calls=2), None, id="room for the last call"),
        pytest.param({"calls": 3}, Usage(calls=3), "budget:session.calls", id="no call left"),
        pytest.param({"calls": 0}, Usage(), "budget:session.calls", id="none allowed at all"),
        pytest.param({"tools": 1}, Usage(tools=1, new_tool=False), None, id="a tool that is counted already"),
        pytest.param({"tools": 1}, Usage(tools=1), "budget:session.tools", id="one tool too many"),
        pytest.param({"argument_bytes": 10}, Usage(argument_bytes=3), None, id="arguments fit"),
        pytest.param({"argument_bytes": 9}, Usage(argument_bytes=3), "budget:session.argument_bytes", id="too long"),
        pytest.param({"result_bytes": 9}, Usage(result_bytes=8), None, id="something left for results"),
        pytest.param({"result_bytes": 9}, Usage(result_bytes=9), "budget:session.result_bytes", id="nothing left"),
        pytest.param({"cost": 7.5}, Usage(cost=5), None, id="affordable"),
        pytest.param({"cost": 7.4}, Usage(cost=5), "budget:session.cost", id="too dear"),
        pytest.param({"wall_s": 9}, Usage(wall_s=8.9), None, id="time left"),
        pytest.param({"wall_s": 9}, Usage(wall_s=9), "budget:session.wall_s", id="time is up"),
        pytest.param({"calls_per_minute": 2}, Usage(calls_per_minute=2, room_in_s=7),
                     "budget:session.calls_per_minute", id="too fast"),
        pytest.param({"calls_per_minute": 2, "calls": 2}, Usage(calls_per_minute=2, calls=2), "budget:session.calls",
                     id="what does not pass is told first"),
    ],
)  # fmt: skip
def test_a_budget_speaks_when_the_call_has_no_room(
    limits: dict[str, float], usage: Usage, expected: str | None
) -> None:
    policy = with_budget(budget(**limits), costs=(Cost(units=2.5, tool="s*"), Cost(units=99)))
    decision = decide(policy, CallFacts(tool=MAIL, usage={Scope.SESSION: usage}, argument_bytes=7))
    assert (decision.rule_id, decision.verdict) == ((expected, Verdict.DENY) if expected else ("all", Verdict.ALLOW))
    waits = expected == "budget:session.calls_per_minute"
    assert decision.room_in_s == (7 if waits else None)


def test_a_used_up_budget_asks_where_it_says_so_and_tells_who_can_raise_it() -> None:
    facts = CallFacts(tool=MAIL, usage={Scope.SESSION: Usage(calls=3)})
    asked = decide(with_budget(budget(Verdict.ASK, calls=3)), facts)
    assert (asked.verdict, asked.reason, asked.remedy) == (
        Verdict.ASK,
        "the budget has no room for this call: 3 of 3 tool calls per session are used",
        "the owner of the organisation policy can raise calls in [budget.session]",
    )
    assert decide(with_budget(budget(calls=3)), facts).remedy.endswith("raise calls in [budget.session]")


def test_seconds_that_code_ran_are_told_in_digits_that_somebody_reads() -> None:
    facts = CallFacts(tool=MAIL, usage={Scope.SESSION: Usage(wall_s=2.00592359699658118)})
    assert ": 2.006 of 2 seconds of" in decide(with_budget(budget(wall_s=2)), facts).reason


def test_budgets_of_scopes_that_nobody_counts_say_nothing() -> None:
    facts = CallFacts(tool=MAIL, usage={Scope.SESSION: Usage(calls=99)})
    assert decide(with_budget(budget(scope=Scope.KEY, calls=1)), facts).verdict is Verdict.ALLOW


@pytest.mark.parametrize(("used", "low"), [(6, False), (7, True), (9, True)])
def test_a_budget_is_low_from_eighty_percent(used: int, low: bool) -> None:
    (report,) = budgets_of(
        with_budget(budget(calls=10)), CallFacts(tool=MAIL, usage={Scope.SESSION: Usage(calls=used)})
    )
    assert (report.low, report.used_up) == (low, False)


def test_three_tenths_are_not_more_than_a_limit_of_three_tenths() -> None:
    policy = with_budget(budget(cost=0.3), costs=(Cost(units=0.1),))
    facts = CallFacts(tool=MAIL, usage={Scope.SESSION: Usage(cost=0.2)})
    assert decide(policy, facts).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"calls": -1}, id="negative"),
        pytest.param({"calls": 1.5}, id="half a call"),
        pytest.param({"wall_s": float("nan")}, id="no number"),
        pytest.param({"calls_per_minute": 10**6}, id="more than is remembered"),
        pytest.param({"then": Verdict.ALLOW, "calls": 1}, id="then allow"),
    ],
)
def test_a_budget_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be|does not"):
        budget(**wrong)


USAGE = st.builds(
    Usage,
    calls=st.integers(0, 9),
    tools=st.integers(0, 3),
    new_tool=st.booleans(),
    result_bytes=st.integers(0, 9),
    cost=st.integers(0, 9).map(float),
    wall_s=st.floats(0, 9),
)
BUDGETS = st.builds(
    Budget,
    scope=st.sampled_from(Scope),
    limits=st.dictionaries(st.sampled_from(Measure), st.integers(0, 9), min_size=1, max_size=3),
    then=st.sampled_from([Verdict.ASK, Verdict.DENY]),
)


@given(
    layers=st.lists(LAYERS, max_size=2), tool=TOOLS, one=BUDGETS, used=st.dictionaries(st.sampled_from(Scope), USAGE)
)
def test_law_a_budget_only_makes_a_decision_stricter(
    layers: list[Layer], tool: ToolDefinition, one: Budget, used: dict[Scope, Usage]
) -> None:
    facts = CallFacts(tool=tool, usage=used)
    before = decide(Policy(layers=tuple(layers)), facts)
    policy = Policy(layers=(*layers, Layer(name=LayerName.KEY, budgets=(one,))))
    after = decide(policy, facts)
    assert after.verdict.strictness >= before.verdict.strictness
    assert explain(policy, facts).decision == after


def test_an_explanation_shows_labels_rules_about_them_and_budgets() -> None:
    other = replace(AFTER_UNTRUSTED, rule_id="other", does=("spends",))
    policy = Policy(layers=(organisation(ALLOW, AFTER_UNTRUSTED, other, labels=(SENDS,), budgets=(budget(calls=5),)),))
    facts = CallFacts(tool=MAIL, taken_in=frozenset({"untrusted"}), usage={Scope.SESSION: Usage(calls=4)})
    told: Any = explain(policy, facts).to_json()
    assert [(rule["rule"], rule["state"], rule["why"]) for rule in told["layers"][0]["rules"]] == [
        ("all", "decides", ""),
        ("flow", "decides", ""),
        ("other", "misses", 'does is ["sends_out"], the rule is for ["spends"]'),
    ]
    assert told["layers"][0]["verdict"] == "ask"
    assert told["labels"] == {"does": ["sends_out"], "returns": [], "taken_in": ["untrusted"]}
    assert told["budgets"] == [
        {"budget": "session.calls", "layer": "organisation", "limit": 5, "used": 4, "adds": 1, "state": "low",
         "then": "deny"},
    ]  # fmt: skip


def test_labels_and_budgets_are_part_of_the_version_of_a_policy() -> None:
    layers = [
        organisation(ALLOW),
        organisation(ALLOW, labels=(SENDS,)),
        organisation(ALLOW, budgets=(budget(calls=5),)),
        organisation(ALLOW, budgets=(budget(calls=6),)),
        organisation(ALLOW, costs=(Cost(units=1),)),
        organisation(ALLOW, AFTER_UNTRUSTED),
    ]
    assert len({layer.digest for layer in layers}) == len(layers)
