"""Labels, budgets, costs and presets of a policy file and of server entries: what is read, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moonpool.configuration.policies import load_policy
from moonpool.configuration.policy_examples import run_examples
from moonpool.configuration.policy_file import parse_policy
from moonpool.configuration.servers import parse_config
from moonpool.core.errors import ConfigError
from moonpool.core.manifest import ToolDefinition
from moonpool.policy import Budget, Cost, Label, LayerName, Measure, Scope, Verdict
from tables import every_row

HEAD = "version = 1\n"
WHOLE = """
version = 1
default = "allow"
preset = ["no-exfiltration"]

[[rule]]
id = "no-spending-spree"
verdict = "ask"
after = "untrusted"
does = ["spends", "destroys"]

[[label]]
server = "mail"
tool = "read_*"
returns = ["private", "untrusted"]

[[label]]
tool = "send*"
does = "sends_out"

[budget.session]
calls = 200
cost = 12.5
then = "ask"

[budget.key]
calls_per_minute = 30

[[cost]]
tool = "search"
units = 2.5

[[example]]
call = { server = "mail", tool = "send" }
after = ["private", "untrusted"]
verdict = "human_only"
rule = "preset:no-exfiltration"

[[example]]
call = { server = "mail", tool = "send" }
after = "private"
verdict = "allow"

[[example]]
call = { server = "web", tool = "search" }
used = { session = { cost = 11 } }
verdict = "ask"
rule = "budget:session.cost"
"""


def parse(text: str) -> Any:
    return parse_policy(text.encode(), source="p.toml")


def test_everything_that_can_be_written_is_read() -> None:
    layer = parse(WHOLE).layer
    assert [rule.rule_id for rule in layer.rules] == ["no-spending-spree", "preset:no-exfiltration"]
    assert (layer.rules[0].after, layer.rules[0].does) == (("untrusted",), ("spends", "destroys"))
    assert layer.labels == (
        Label(server="mail", tool="read_*", returns=("private", "untrusted")),
        Label(tool="send*", does=("sends_out",)),
    )
    session = {Measure.CALLS: 200, Measure.COST: 12.5}
    assert layer.budgets == (
        Budget(scope=Scope.SESSION, limits=session, then=Verdict.ASK, layer=LayerName.ORGANISATION),
        Budget(scope=Scope.KEY, limits={Measure.CALLS_PER_MINUTE: 30}, layer=LayerName.ORGANISATION),
    )
    assert layer.costs == (Cost(tool="search", units=2.5),)


def test_examples_suppose_what_was_read_and_used() -> None:
    outcomes = list(run_examples(parse(WHOLE)))
    assert [outcome.explanation.decision.rule_id for outcome in outcomes] == [
        "preset:no-exfiltration", "default", "budget:session.cost",
    ]  # fmt: skip
    assert all(outcome.ok for outcome in outcomes)


@every_row(
    ("text", "sentence"),
    [
        pytest.param('preset = "no-exfiltrate"', "must be no-exfiltration, but is 'no-exfiltrate'; did", id="preset"),
        pytest.param(
            '[[label]]\ntool = "x"\nreturns = "secret"',
            "label number 1: \"returns\": must be private or untrusted, but is 'secret'", id="unknown label",
        ),
        pytest.param('[[label]]\ntool = "x"\ndoes = "send_out"', 'did you mean "sends_out"?', id="misspelt label"),
        pytest.param('[[label]]\ntool = "x"', "label number 1: says nothing", id="a label without labels"),
        pytest.param('[[label]]\nreturns = "private"', 'names no "server" and no "tool"', id="a label of everybody"),
        pytest.param('[[label]]\ntool = ""\nreturns = "private"', '"tool": is empty', id="an empty glob"),
        pytest.param("[budget.sesion]\ncalls = 1", 'unknown key "sesion"; did you mean "session"?', id="scope"),
        pytest.param("[budget.session]\ncals = 1", 'unknown key "cals"; did you mean "calls"?', id="measure"),
        pytest.param("[budget.session]", '"session": has no number; give one of calls', id="an empty budget"),
        pytest.param("[budget.session]\ncalls = -1", "calls must be from 0 to", id="negative"),
        pytest.param("[budget.session]\ncalls = 1.5", "calls must be a whole number, got 1.5", id="half a call"),
        pytest.param("[budget.session]\nwall_s = inf", "wall_s must be from 0 to", id="endless"),
        pytest.param('[budget.session]\ncalls = 1\nthen = "allow"', "must be ask or deny", id="then allow"),
        pytest.param("budget = 5", '"budget": must be a table', id="no table of budgets"),
        pytest.param('[[cost]]\ntool = "x"', 'has no "units"', id="a cost without units"),
        pytest.param('[[cost]]\ntool = "x"\nunits = 0.0001', "at most 3 decimals", id="too fine a cost"),
        pytest.param("[[cost]]\nunits = 1", 'names no "server" and no "tool"', id="a cost of everybody"),
        pytest.param(
            '[[rule]]\nid = "r"\nverdict = "allow"\nafter = "private"', "labels only tighten", id="a rule that loosens"
        ),
        pytest.param(
            '[[example]]\ncall = { server = "s", tool = "t" }\nverdict = "ask"\nused = { session = { cals = 1 } }',
            'unknown key "cals"', id="usage in an example",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_by_its_place(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(HEAD + text)
    assert str(caught.value).startswith("p.toml")
    assert sentence in str(caught.value)


def config(**block: Any) -> Any:
    text = json.dumps({"mcpServers": {"web[1]": {"command": "x", "moonpool": block}}})
    return parse_config(text.encode(), source="moonpool.json", environ={})


def test_a_server_entry_labels_all_its_tools() -> None:
    policy = load_policy(None, config(returns=["untrusted"], does=["sends_out"]))
    tool = ToolDefinition(server_id="web[1]", name="fetch", raw={"name": "fetch"})
    assert (policy.returns(tool), policy.does(tool)) == ({"untrusted"}, {"sends_out"})


def test_an_unknown_label_in_a_server_entry_is_refused() -> None:
    with pytest.raises(ConfigError, match="returns"):
        config(returns=["secret"])


def test_a_rule_of_a_server_entry_has_the_bounds_of_a_policy_files() -> None:
    rule = {"tool": "x", "verdict": "ask", "when": [{"at": "/a", "equals": None}] * 33}
    with pytest.raises(ConfigError, match=r"^moonpool\.json: at most 32 conditions in one rule$"):
        load_policy(None, config(rules=[rule]))


def test_a_rule_that_can_never_apply_is_told_to_the_operator(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "p.toml").write_text(HEAD + 'preset = ["no-exfiltration"]', encoding="utf-8")
    with caplog.at_level("WARNING"):
        load_policy(tmp_path / "p.toml", config(returns=["untrusted"], does=["sends_out"]))
        assert [record.message for record in caplog.records] == [
            "policy rule 'preset:no-exfiltration' never applies: no server or tool is labelled private"
        ]
        load_policy(tmp_path / "p.toml", config(returns=["untrusted", "private"], does=["sends_out"]))
    assert len(caplog.records) == 1
