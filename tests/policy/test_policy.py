"""Laws and sentences of policy."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.core.manifest import ToolDefinition
from moonpool.policy import (
    CallFacts,
    Decision,
    Layer,
    LayerName,
    Policy,
    Rule,
    Verdict,
    configuration_layer,
    effective_hints,
    operators_remedy,
    server_rules,
    strictest,
)
from moonpool.policy import decide as decide_facts
from tables import every_row


def tool(name: str = "log", server: str = "git", **hints: bool) -> ToolDefinition:
    raw: dict[str, Any] = {"name": name, "annotations": hints} if hints else {"name": name}
    return ToolDefinition(server_id=server, name=name, raw=raw)


def blocks(*rules: Rule, default: Verdict | None = None, reads: bool | None = None) -> Policy:
    """What `moonpool` blocks make: one layer in which the strictest rule wins."""
    return Policy(layers=(replace(configuration_layer(rules), default=default, allow_trusted_reads=reads),))


def decide(policy: Policy, tool: ToolDefinition, *, trusted: bool) -> Decision:
    return decide_facts(policy, CallFacts(tool=tool, trusted=trusted))


def rule(glob: str, verdict: Verdict, server: str = "*", **annotations: bool) -> Rule:
    return Rule(
        rule_id=f"{verdict}:{server}.{glob}", verdict=verdict, server=server, tool=glob, annotations=annotations
    )


@every_row(
    ("rules", "hints", "trusted", "expected"),
    [
        pytest.param([], {}, True, Verdict.ASK, id="an unannotated tool is asked about"),
        pytest.param([], {"readOnlyHint": True}, True, Verdict.ALLOW, id="a trusted read is allowed"),
        pytest.param([], {"readOnlyHint": True}, False, Verdict.ASK, id="an untrusted read is asked about"),
        pytest.param([], {"readOnlyHint": True, "destructiveHint": True}, True, Verdict.ASK, id="contradiction: ask"),
        pytest.param([rule("log", Verdict.ALLOW)], {}, False, Verdict.ALLOW, id="a literal rule allows"),
        pytest.param([rule("l*", Verdict.ALLOW)], {}, False, Verdict.ALLOW, id="a glob allows"),
        pytest.param([rule("LOG", Verdict.ALLOW)], {}, False, Verdict.ASK, id="globs are case-sensitive"),
        pytest.param([rule("log", Verdict.ALLOW, "hg")], {}, False, Verdict.ASK, id="another server's rule"),
        pytest.param([rule("*", Verdict.ALLOW), rule("log", Verdict.DENY)], {}, True, Verdict.DENY, id="deny wins"),
        pytest.param([rule("log", Verdict.DENY), rule("*", Verdict.ALLOW)], {}, True, Verdict.DENY, id="in any order"),
        pytest.param(
            [rule("*", Verdict.HUMAN_ONLY), rule("*", Verdict.ASK)], {}, True, Verdict.HUMAN_ONLY, id="human beats ask"
        ),
        pytest.param(
            [rule("*", Verdict.ALLOW)], {"destructiveHint": True}, False, Verdict.ASK, id="destructive needs its name"
        ),
        pytest.param(
            [rule("lo?", Verdict.ALLOW)], {"destructiveHint": True}, False, Verdict.ALLOW, id="a named destructive tool"
        ),
        pytest.param(
            [rule("*", Verdict.ALLOW, readOnlyHint=True)],
            {"readOnlyHint": True},
            False,
            Verdict.ASK,
            id="an untrusted server cannot talk itself into an allow rule",
        ),
        pytest.param(
            [rule("*", Verdict.DENY, readOnlyHint=False)],
            {"readOnlyHint": True},
            False,
            Verdict.DENY,
            id="an untrusted server cannot talk itself out of a deny rule",
        ),
    ],
)
@pytest.mark.req("X-06", "X-22", "C-008")
def test_decide_returns_the_strictest_match(
    rules: list[Rule], hints: dict[str, bool], trusted: bool, expected: Verdict
) -> None:
    assert decide(blocks(*rules), tool(**hints), trusted=trusted).verdict is expected


NAMES = st.sampled_from(["log", "push", "get_x", "a"])
GLOBS = st.sampled_from(["*", "log", "p*", "get_?", "[al]*", "?"])
HINTS = st.dictionaries(
    st.sampled_from(["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]), st.booleans()
)
RULES = st.builds(
    Rule,
    rule_id=st.uuids().map(str),
    verdict=st.sampled_from(Verdict),
    server=st.sampled_from(["*", "git", "g*", "hg"]),
    tool=GLOBS,
    annotations=HINTS,
)
LAYERS = st.builds(
    replace,
    st.lists(RULES, max_size=5).map(lambda rules: configuration_layer(tuple(rules))),
    default=st.none() | st.sampled_from(Verdict),
    allow_trusted_reads=st.none() | st.booleans(),
)
POLICIES = LAYERS.map(lambda layer: Policy(layers=(layer,)))


@st.composite
def tools(draw: st.DrawFn) -> ToolDefinition:
    return tool(draw(NAMES), draw(st.sampled_from(["git", "hg"])), **draw(HINTS))


@given(POLICIES, tools(), st.booleans(), st.randoms())
def test_the_order_of_blocks_does_not_matter(policy: Policy, tool: ToolDefinition, trusted: bool, random: Any) -> None:
    (layer,) = policy.layers
    shuffled = list(layer.rules)
    random.shuffle(shuffled)
    one = decide(policy, tool, trusted=trusted)
    other = decide(Policy(layers=(replace(layer, rules=tuple(shuffled)),)), tool, trusted=trusted)
    assert replace(one, policy_digest="") == replace(other, policy_digest="")


@given(POLICIES, tools(), st.booleans(), RULES)
def test_adding_a_deny_never_loosens(policy: Policy, tool: ToolDefinition, trusted: bool, extra: Rule) -> None:
    (layer,) = policy.layers
    stricter = Policy(layers=(replace(layer, rules=(*layer.rules, replace(extra, verdict=Verdict.DENY))),))
    before, after = decide(policy, tool, trusted=trusted), decide(stricter, tool, trusted=trusted)
    assert after.verdict.strictness >= before.verdict.strictness


@given(POLICIES, tools(), HINTS)
@pytest.mark.req("X-22", "C-008")
def test_no_annotation_of_an_untrusted_server_loosens(
    policy: Policy, plain: ToolDefinition, hints: dict[str, bool]
) -> None:
    bare = tool(plain.name, plain.server_id)
    hinted = tool(plain.name, plain.server_id, **hints)
    loosest = decide(policy, bare, trusted=False).verdict
    assert decide(policy, hinted, trusted=False).verdict.strictness >= loosest.strictness


@pytest.mark.req("C-009")
@pytest.mark.parametrize("trusted", [True, False])
def test_what_a_server_does_not_say_of_a_tool_is_taken_for_the_worst(trusted: bool) -> None:
    silent, reads = effective_hints(tool(), trusted=trusted), effective_hints(tool(readOnlyHint=True), trusted=True)
    assert (silent.read_only, silent.destructive, silent.idempotent, silent.open_world) == (False, True, False, True)
    assert (reads.read_only, reads.destructive, reads.repeatable) == (True, False, True)


@given(POLICIES, tools())
def test_a_matching_rule_bounds_the_verdict_from_below(policy: Policy, tool: ToolDefinition) -> None:
    facts = CallFacts(tool=tool, trusted=True)
    matching = [rule.verdict for rule in policy.layers[0].rules if rule.matches(facts)]
    verdict = decide(policy, tool, trusted=True).verdict
    assert not matching or verdict.strictness >= strictest(matching).strictness


def test_a_question_about_what_nobody_speaks_of_names_the_rule_to_add() -> None:
    decision = decide(Policy(), tool("push"), trusted=True)
    assert decision.reason == "no rule matches git.push and the server does not declare it read-only"
    assert operators_remedy(decision.remedy, "git", "push") == "moonpool allow git.push"


def test_a_rule_denial_names_the_rule_in_the_way() -> None:
    decision = decide(blocks(*server_rules("git", [("pu*", "deny")])), tool("push"), trusted=True)
    assert decision.rule_id == "git:deny:pu*"
    assert "rule 'git:deny:pu*' denies git.push" in decision.reason
    told = operators_remedy(decision.remedy, "git", "push")
    assert (
        told == "change rule 'git:deny:pu*' in the server's \"moonpool\" block"
    )  # which `allow git.push` leaves there
    by_name = decide(blocks(*server_rules("git", [("push", "deny")])), tool("push"), trusted=True)
    assert operators_remedy(by_name.remedy, "git", "push") == "moonpool allow git.push"


def test_a_default_of_allow_still_asks_before_what_is_declared_destructive() -> None:
    decision = decide(blocks(default=Verdict.ALLOW), tool("push", destructiveHint=True), trusted=False)
    assert (decision.verdict, decision.rule_id) == (Verdict.ASK, "default:destructive")


def test_a_rule_of_any_layer_that_names_a_destructive_tool_is_enough() -> None:
    organisation = Layer(name=LayerName.ORGANISATION, rules=(rule("push", Verdict.ALLOW),))
    policy = Policy(layers=(organisation, configuration_layer((rule("*", Verdict.ALLOW),))))
    assert decide(policy, tool("push", destructiveHint=True), trusted=False).verdict is Verdict.ALLOW


def test_the_safe_default_is_what_it_was() -> None:
    verdicts = {
        (trusted, read): decide(Policy(), tool(**({"readOnlyHint": True} if read else {})), trusted=trusted).verdict
        for trusted in (True, False)
        for read in (True, False)
    }
    asked = dict.fromkeys(verdicts, Verdict.ASK)
    assert verdicts == {**asked, (True, True): Verdict.ALLOW}


@pytest.mark.req("X-06")
def test_the_command_an_operator_is_told_is_quoted_for_a_shell() -> None:
    told = operators_remedy("", "git", "x'; rm -rf ~ #", "/srv/my servers.json")
    assert shlex.split(told) == ["moonpool", "allow", "git.x'; rm -rf ~ #", "--config", "/srv/my servers.json"]
    assert shlex.split(operators_remedy("", "git", "*"))[2] == "git.[*]"
    assert operators_remedy("raise it", "git", "push", "/x") == "raise it"
    registered = operators_remedy("", "git", "push", "an agent's registration")  # `moonpool allow` would not find it
    assert registered == "a policy file needs a rule that allows git.push"


def test_the_hinted_rule_allows_exactly_the_named_tool_even_with_glob_characters() -> None:
    rules = server_rules("git", [("get[*]", "allow")])
    assert decide(blocks(*rules), tool("get*"), trusted=False).verdict is Verdict.ALLOW
    assert decide(blocks(*rules), tool("getx"), trusted=False).verdict is Verdict.ASK


def test_a_rule_with_an_unknown_annotation_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown annotation 'readonly'"):
        rule("*", Verdict.ALLOW, readonly=True)


@pytest.mark.req("X-21")
def test_only_a_trusted_hint_makes_a_call_repeatable() -> None:
    assert effective_hints(tool(idempotentHint=True), trusted=True).repeatable
    assert effective_hints(tool(readOnlyHint=True), trusted=True).repeatable
    assert not effective_hints(tool(idempotentHint=True, readOnlyHint=True), trusted=False).repeatable
