"""Laws of layers and conditions, whatever the rules, and what an explanation and a digest promise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.core.manifest import ToolDefinition
from moonpool.policy import (
    Absent,
    Below,
    CallFacts,
    Condition,
    Equals,
    Finding,
    Glob,
    HostIn,
    Layer,
    LayerName,
    OneOf,
    Order,
    Policy,
    Range,
    Regex,
    Rule,
    Say,
    Verdict,
    configuration_layer,
    decide,
    explain,
    layer_say,
    layer_says,
    settle,
    strictest,
)

HINTS = st.dictionaries(st.sampled_from(["readOnlyHint", "destructiveHint"]), st.booleans())
TESTS = st.sampled_from([
    Equals("acme/site"), OneOf(("acme/site", 5)), Glob(("acme/*",)), Regex("[a-z/]+"), Range(0, 10), Below(("/srv",)),
    HostIn(("example.org",)),
])  # fmt: skip
POINTERS = st.sampled_from(["/repo", "/n", "/deep/0/path", "/url"])
CONDITIONS = st.builds(Condition, POINTERS, TESTS)
VALUES = st.sampled_from(["acme/site", "evil/site", "/srv/x", "/etc", "https://example.org/", 5, 50, None, [], True])
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={"repo": VALUES, "n": VALUES, "url": VALUES, "deep": VALUES.map(lambda value: [{"path": value}])},
)


@st.composite
def rules(draw: st.DrawFn, **fixed: st.SearchStrategy[Any]) -> Rule:
    return Rule(
        rule_id=f"r{draw(st.integers(0, 10**6))}",
        verdict=draw(fixed.get("verdict", st.sampled_from(Verdict))),
        server=draw(st.sampled_from(["*", "git", "hg"])),
        tool=draw(st.sampled_from(["*", "push", "p*"])),
        annotations=draw(HINTS),
        trusted=draw(st.sampled_from([None, None, True, False])),
        principal=draw(st.sampled_from(["*", "local:*", "key:ci"])),
        languages=draw(st.sampled_from([(), ("python",), ("bash", "node")])),
        when=draw(fixed.get("when", st.lists(CONDITIONS, max_size=2).map(tuple))),
    )


@st.composite
def layers(draw: st.DrawFn, order: Order | None = None) -> Layer:
    return Layer(
        name=draw(st.sampled_from(LayerName)),
        rules=tuple(draw(st.lists(rules(), max_size=5))),
        order=order or draw(st.sampled_from(Order)),
        default=draw(st.sampled_from([None, *Verdict])),
        allow_trusted_reads=draw(st.sampled_from([None, True, False])),
    )


POLICIES = st.lists(layers(), max_size=3).map(lambda found: Policy(layers=tuple(found)))


@st.composite
def facts(draw: st.DrawFn, arguments: st.SearchStrategy[Any] = ARGUMENTS) -> CallFacts:
    name, server = draw(st.sampled_from(["push", "log"])), draw(st.sampled_from(["git", "hg"]))
    return CallFacts(
        tool=ToolDefinition(server_id=server, name=name, raw={"name": name, "annotations": draw(HINTS)}),
        arguments=draw(arguments),
        trusted=draw(st.booleans()),
        principal=draw(st.sampled_from(["local:ann", "key:ci"])),
        language=draw(st.sampled_from(["python", "bash"])),
    )


@given(layers(Order.FIRST), facts())
def test_in_a_file_the_first_rule_that_matches_speaks(layer: Layer, call: CallFacts) -> None:
    matching = [rule for rule in layer.rules if rule.matches(call)]
    assert layer.speaker(call) is (matching[0] if matching else None)
    behind = Rule(rule_id="behind", verdict=Verdict.DENY)
    if matching:
        assert replace(layer, rules=(*layer.rules, behind)).speaker(call) is matching[0]


@given(POLICIES, facts())
def test_between_layers_the_strictest_say_wins(policy: Policy, call: CallFacts) -> None:
    spoken = [say.verdict for layer in policy.layers if (say := layer_say(layer, call)) is not None]
    verdict = decide(policy, call).verdict
    if spoken:
        raised = verdict is Verdict.ASK and call.hints.declared_destructive
        assert verdict is strictest(spoken) or (raised and strictest(spoken) is Verdict.ALLOW)


@given(POLICIES, layers(), facts())
def test_a_layer_more_never_loosens_what_a_layer_said(policy: Policy, extra: Layer, call: CallFacts) -> None:
    """It may speak where none did; what other layers said, by rules or defaults, it can only make stricter."""
    spoken = any(layer_say(layer, call) is not None for layer in policy.layers)
    before = decide(policy, call).verdict
    named = any(rule.names_tool for layer in (*policy.layers, extra) if (rule := layer.speaker(call)) is not None)
    after = decide(Policy(layers=(*policy.layers, extra)), call).verdict
    assert not spoken or (named and call.hints.declared_destructive) or after.strictness >= before.strictness


@given(POLICIES, facts(st.just({})))
def test_a_rule_about_an_argument_that_is_missing_says_nothing(policy: Policy, call: CallFacts) -> None:
    """So it can neither allow a call nor hide a stricter rule behind it."""
    plain = tuple(replace(layer, rules=tuple(rule for rule in layer.rules if not rule.when)) for layer in policy.layers)
    assert decide(policy, call).verdict is decide(Policy(layers=plain), call).verdict


@given(
    layers(Order.FIRST), facts(st.just({})), rules(verdict=st.just(Verdict.ALLOW), when=CONDITIONS.map(lambda c: (c,)))
)
def test_an_allow_rule_in_front_does_nothing_for_a_missing_argument(layer: Layer, call: CallFacts, rule: Rule) -> None:
    in_front = Policy(layers=(replace(layer, rules=(rule, *layer.rules)),))
    assert decide(in_front, call).verdict is decide(Policy(layers=(layer,)), call).verdict


class Unreadable:
    """A test that can read nothing."""

    op = "unreadable"

    def look(self, value: Any) -> Finding:
        del value
        return Finding.UNREADABLE

    def to_json(self) -> dict[str, Any]:
        return {}


@given(layers(Order.FIRST), facts())
def test_an_argument_that_cannot_be_read_is_allowed_only_if_every_readable_one_is(
    layer: Layer, call: CallFacts
) -> None:
    def blinded(rule: Rule) -> Rule:
        return replace(rule, when=tuple(replace(one, at="", test=Unreadable()) for one in rule.when))

    blind = replace(layer, rules=tuple(blinded(rule) for rule in layer.rules), default=Verdict.DENY)
    plain = replace(layer, default=Verdict.DENY, allow_trusted_reads=False)
    speaker = replace(blind, allow_trusted_reads=False).speaker(call)
    if speaker is not None and speaker.verdict is Verdict.ALLOW:
        found = plain.speaker(call)
        assert found is not None
        assert found.verdict is Verdict.ALLOW


@given(POLICIES, facts())
def test_an_explanation_tells_the_decision_and_every_rule(policy: Policy, call: CallFacts) -> None:
    told = explain(policy, call)
    assert told.decision == decide(policy, call)
    for layer, report in zip(policy.layers, told.layers, strict=True):
        speaker, say = layer.speaker(call), layer_say(layer, call)
        assert [rule.rule_id for rule in report.rules] == [rule.rule_id for rule in layer.rules]
        assert report.verdict == (say.verdict if say else None)
        assert report.by_default == (say is not None and speaker is None)
        assert sum(rule.state == "decides" for rule in report.rules) == (speaker is not None)
        assert all(rule.why for rule in report.rules if rule.state == "misses")


PIECES = st.sampled_from([*"ab./\\@:#?%[]", "example.org", "evil.com", "https://", "\t", "é"])


@given(st.text("ab./\\", max_size=12))
def test_no_path_of_dots_and_slashes_gets_out_of_its_folder(tail: str) -> None:
    """Against a second, simpler reading: what holds is inside for a server on POSIX and for one on Windows."""
    import ntpath
    import posixpath

    path = f"/srv/data/{tail}"
    if Condition("/p", Below(("/srv/data",))).look({"p": path}) is Finding.HOLDS:
        assert f"{posixpath.normpath(path)}/".startswith("/srv/data/")
        assert f"{ntpath.normpath(path)}\\".startswith("\\srv\\data\\")


@given(st.lists(PIECES, max_size=8).map("".join))
def test_no_url_that_holds_has_another_host_for_the_standard_library(text: str) -> None:
    from urllib.parse import urlsplit

    for url in (text, f"https://{text}", f"https://example.org{text}"):
        if Condition("/u", HostIn(("example.org",))).look({"u": url}) is Finding.HOLDS:
            assert (urlsplit(url).hostname or "").removesuffix(".") == "example.org"
            assert urlsplit(url).username is None


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": Verdict.DENY}, {"server": "x"}, {"tool": "x"}, {"annotations": {"readOnlyHint": True}},
        {"trusted": True}, {"principal": "x"}, {"languages": ("bash",)}, {"when": (Condition("/a", Absent()),)},
        {"note": "x"}, {"rule_id": "other"},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_the_digest_changes_with_every_member_of_a_rule(change: dict[str, Any]) -> None:
    rule = Rule(rule_id="r", verdict=Verdict.ASK)
    changed = replace(rule, **change)
    one, other = (Policy(layers=(configuration_layer((each,)),)) for each in (rule, changed))
    assert one.digest == Policy(layers=(configuration_layer((rule,)),)).digest
    assert one.digest != other.digest


def test_the_digest_changes_with_the_order_of_rules_and_the_default() -> None:
    first, second = (Rule(rule_id=name, verdict=Verdict.ASK) for name in "ab")
    layer = Layer(name=LayerName.ORGANISATION, rules=(first, second))
    others = [
        replace(layer, rules=(second, first)),
        replace(layer, default=Verdict.DENY),
        configuration_layer(layer.rules),
    ]
    assert len({one.digest for one in [layer, *others]}) == 4


def test_a_decision_names_the_digest_of_its_policy() -> None:
    policy = Policy(layers=(Layer(name=LayerName.KEY, default=Verdict.DENY),))
    call = CallFacts(tool=ToolDefinition(server_id="s", name="t", raw={"name": "t"}))
    assert decide(policy, call).policy_digest == policy.digest


def test_a_say_from_elsewhere_joins_the_layers() -> None:
    """The seam for what is counted: it can make a decision stricter, and its words are the decision's."""
    call = CallFacts(tool=ToolDefinition(server_id="s", name="t", raw={"name": "t"}))
    policy = Policy(layers=(configuration_layer((Rule(rule_id="yes", verdict=Verdict.ALLOW, tool="t"),)),))
    used_up = Say(layer="budget", verdict=Verdict.DENY, rule_id="calls", reason="all used up", remedy="wait")
    decision = settle(policy, call, [*layer_says(policy, call), used_up])
    assert (decision.verdict, decision.layer, decision.reason) == (Verdict.DENY, "budget", "all used up")


def call(**arguments: Any) -> CallFacts:
    tool = ToolDefinition(server_id="github", name="create_issue", raw={"name": "create_issue"})
    return CallFacts(tool=tool, arguments=arguments)


OWN = Rule(
    rule_id="own-repos", verdict=Verdict.ALLOW, tool="create_issue", when=(Condition("/repo", Glob(("acme/*",))),)
)
REST = Rule(rule_id="rest", verdict=Verdict.DENY, server="github", note="write to your own repositories only")
FILE = Policy(layers=(Layer(name=LayerName.ORGANISATION, rules=(OWN, REST)), configuration_layer(())))


def test_a_refusal_names_the_rule_its_note_and_the_remedy_and_nothing_of_other_rules() -> None:
    decision = decide(FILE, call(repo="evil/x"))
    assert decision.reason == (
        "rule 'rest' of the organisation policy denies github.create_issue (write to your own repositories only)"
    )
    assert decision.remedy == "the owner of the organisation policy can change rule 'rest'"
    assert "acme" not in decision.reason + decision.remedy
    assert "own-repos" not in decision.reason + decision.remedy


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        pytest.param({"repo": "evil/x"}, '/repo is "evil/x", the rule wants {"glob": ["acme/*"]}', id="another"),
        pytest.param({}, 'the arguments have no /repo; the rule wants {"glob": ["acme/*"]} there', id="missing"),
        pytest.param(
            {"repo": ["acme/x"]},
            '/repo is ["acme/x"], which an allow rule never takes for {"glob": ["acme/*"]}: it cannot be read for '
            "sure, because it is not a string",
            id="unreadable",
        ),
        pytest.param(
            {"repo": "acme/%2e%2e"},
            '/repo is "acme/%2e%2e", which an allow rule never takes for {"glob": ["acme/*"]}: it cannot be read for '
            "sure, because it has an encoded dot",
            id="an encoded dot",
        ),
        pytest.param(
            {"repo": "acme/x", "Repo": "evil/x"},
            'there is something at /repo, which an allow rule never takes for {"glob": ["acme/*"]}: it cannot be read '
            'for sure, because the arguments have "Repo" beside "repo", which a server may take for one',
            id="a second name",
        ),
        pytest.param(
            {"repo": "acme/x", "a": [{"b": 1, "B": 2}]},
            "an allow rule with conditions never takes arguments that cannot be read for sure: the arguments have "
            '"B" beside "b", which a server may take for one',
            id="a second name elsewhere",
        ),
    ],
)
def test_an_explanation_says_which_condition_failed(arguments: dict[str, Any], why: str) -> None:
    own, rest = explain(FILE, call(**arguments)).layers[0].rules
    assert (own.state, own.why) == ("misses", why)
    assert rest.state == "decides"


def test_an_explanation_says_what_a_rule_takes_for_the_worst() -> None:
    large = Rule(rule_id="large", verdict=Verdict.DENY, when=(Condition("/amount", Range(100)),))
    (report,) = explain(Policy(layers=(configuration_layer((large,)),)), call(amount="99")).layers[0].rules
    assert report.state == "decides"
    assert report.why == "/amount counts against the call: it cannot be read for sure, because it is not a number"


def test_an_explanation_says_what_was_not_reached() -> None:
    own, rest = explain(FILE, call(repo="acme/x")).layers[0].rules
    assert (own.state, rest.state) == ("decides", "not reached")


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"server": "gitlab"}, 'server is "github", the rule is for "gitlab"'),
        ({"tool": "x*"}, 'tool is "create_issue", the rule is for "x*"'),
        ({"principal": "key:*"}, 'principal is "", the rule is for "key:*"'),
        ({"languages": ("bash",)}, 'language is "python", the rule is for ["bash"]'),
        ({"trusted": True}, "trusted is false, the rule is for true"),
        ({"annotations": {"readOnlyHint": True}},
         'annotations is {"readOnlyHint": false}, the rule is for {"readOnlyHint": true}'),
    ],
)  # fmt: skip
def test_an_explanation_says_what_a_rule_is_for(rule: dict[str, Any], why: str) -> None:
    policy = Policy(layers=(configuration_layer((Rule(rule_id="r", verdict=Verdict.ALLOW, **rule),)),))
    assert explain(policy, call()).layers[0].rules[0].why == why
