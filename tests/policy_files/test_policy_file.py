"""Policy files: what is read, and every way in which one is refused, by file, place, key and remedy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from moonpool.configuration.policies import blocks_layer, file_digest, files_digest, load_policy, policy_in_force
from moonpool.configuration.policy_examples import run_examples
from moonpool.configuration.policy_file import load_policy_file, parse_policy
from moonpool.configuration.servers import parse_config
from moonpool.core.errors import ConfigError
from moonpool.core.manifest import ToolDefinition
from moonpool.policy import (
    Absent,
    Below,
    CallFacts,
    Condition,
    Equals,
    Glob,
    HostIn,
    Layer,
    LayerName,
    OneOf,
    Range,
    Regex,
    Rule,
    Verdict,
    decide,
)
from moonpool.settings import Settings
from tables import every_row

WHOLE = """
version = 1
default = "deny"
allow_trusted_reads = false

[[rule]]
id = "everything"
verdict = "human_only"
server = "git*"
tool = "create_issue"
annotations = { readOnlyHint = false }
trusted = true
principal = "local:*"
language = ["python", "node"]
note = "why"

[[rule.when]]
at = "/a"
equals = { b = [1, true] }

[[rule.when]]
at = "/b"
in = ["x", 2]

[[rule.when]]
at = "/c"
glob = "acme/*"

[[rule.when]]
at = "/d"
regex = "[a-z]+"
anywhere = true

[[rule.when]]
at = "/e"
min = 1
max = 2.5

[[rule.when]]
at = "/f"
below = ["/srv", "docs"]

[[rule.when]]
at = "/g"
host_in = "*.example.org"

[[rule.when]]
at = "/h"
absent = true

[[example]]
call = { server = "github", tool = "create_issue", arguments = { a = 1 } }
verdict = "deny"
"""


def test_every_key_is_read() -> None:
    file = parse_policy(WHOLE.encode(), source="p.toml")
    assert file.layer == Layer(
        name=LayerName.ORGANISATION,
        default=Verdict.DENY,
        allow_trusted_reads=False,
        rules=(
            Rule(
                rule_id="everything", verdict=Verdict.HUMAN_ONLY, server="git*", tool="create_issue",
                annotations={"readOnlyHint": False}, trusted=True, principal="local:*", languages=("python", "node"),
                note="why",
                when=(
                    Condition("/a", Equals({"b": [1, True]})), Condition("/b", OneOf(("x", 2))),
                    Condition("/c", Glob(("acme/*",))), Condition("/d", Regex("[a-z]+", anywhere=True)),
                    Condition("/e", Range(1, 2.5)), Condition("/f", Below(("/srv", "docs"))),
                    Condition("/g", HostIn(("*.example.org",))), Condition("/h", Absent()),
                ),
            ),
        ),
    )  # fmt: skip
    assert [example.verdict for example in file.examples] == [Verdict.DENY]


def test_a_file_with_a_version_only_says_nothing() -> None:
    assert parse_policy(b"version = 1", source="p").layer == Layer(name=LayerName.ORGANISATION)


RULE = '[[rule]]\nid = "r"\nverdict = "ask"\n'
WHEN = RULE + '[[rule.when]]\nat = "/a"\n'
EXAMPLE = '[[example]]\nverdict = "ask"\ncall = { server = "s", tool = "t" }\n'


@every_row(
    ("text", "problem"),
    [
        ("", 'p.toml: has no "version"; the first line of a policy is version = 1'),
        ("version = 2", 'p.toml: "version": this release reads version 1 only'),
        ('version = "1"', 'p.toml: "version": must be a whole number, not a string'),
        ("rules = []\nversion = 1", 'p.toml: unknown key "rules"; did you mean "rule"?'),
        ("[rule]\nid='a'", 'p.toml: "rule": must be an array of tables; write [[rule]], not a table'),
        ("a b", "p.toml: is not TOML: expected '=' after a key in a key/value pair (at line 2, column 3)"),
        ("default = ask", "is not TOML: invalid value (at line 2, column 11); write a string in quotes"),
        ('default = "maybe"', "p.toml: \"default\": must be allow, ask, human_only or deny, but is 'maybe'"),
        ('[[rule]]\nverdict = "ask"', 'p.toml: rule number 1: has no "id"; give it a short name'),
        ('[[rule]]\nid = "a:b"\nverdict = "ask"', "p.toml: rule 'a:b': \"id\": use 1 to 64 letters"),
        ('[[rule]]\nid = "default"\nverdict = "ask"', "p.toml: rule 'default': \"id\": use 1 to 64 letters"),
        ('[[rule]]\nid = "r"', "p.toml: rule 'r': has no \"verdict\""),
        (
            '[[rule]]\nid = "r"\nverdict = "human-only"',
            "must be allow, ask, human_only or deny, but is 'human-only'; did you mean \"human_only\"?",
        ),
        (RULE + RULE, "p.toml: two rules have the id 'r'"),
        (RULE + 'severs = "x"', 'p.toml: rule \'r\': unknown key "severs"; did you mean "server"?'),
        (RULE + "tool = 3", "p.toml: rule 'r': \"tool\": must be a string, not a number"),
        (RULE + 'tool = ""', "p.toml: rule 'r': \"tool\": is empty and would match nothing"),
        (RULE + f'tool = "{"a" * 1001}"', "p.toml: rule 'r': a pattern of 1001 characters"),
        (RULE + 'trusted = "yes"', "p.toml: rule 'r': \"trusted\": must be true or false, not a string"),
        (RULE + "annotations = { readonlyHint = true }", 'unknown key "readonlyHint"; did you mean "readOnlyHint"?'),
        (RULE + "annotations = { readOnlyHint = 1 }", '"annotations": "readOnlyHint": must be true or false'),
        (RULE + 'language = "pyhton"', "but is 'pyhton'; did you mean \"python\"?"),
        (RULE + f'note = "{"a" * 501}"', "a note has at most 500 characters"),
        (RULE + "when = { at = '/a' }", '"when": must be an array of tables; write [[rule.when]], not a table'),
        (RULE + "[[rule.when]]\nequals = 1", "p.toml: rule 'r', condition 1: has no \"at\""),
        (WHEN, "p.toml: rule 'r', condition 1: asks for nothing; a condition has one of equals, in, glob"),
        (WHEN + 'equals = 1\nglob = "a"', "condition 1: has equals and glob; a condition has one of"),
        (WHEN + "min = 1\nequals = 1", "condition 1: has equals and min; a condition has one of"),
        (WHEN + 'gob = "a"', 'condition 1: unknown key "gob"; did you mean "glob"?'),
        (WHEN + 'min = "a"', 'condition 1: "min": must be a number, not a string'),
        (WHEN + "min = nan", 'condition 1: "min": a range needs a finite number'),
        (WHEN + "glob = [1]", '"glob[0]": must be a string, not a number'),
        (WHEN + "glob = []", '"glob": a list of 0 entries'),
        (WHEN + 'in = "a"', '"in": must be a list, not a string'),
        (WHEN + "equals = 2026-01-01", '"equals": a date is not JSON; write it as a string'),
        (WHEN + "equals = inf", '"equals": nan and inf are no JSON'),
        (
            WHEN + 'regex = "("',
            "\"regex\": '(' is not a regular expression of RE2: missing ): (; write \\( or \\\\ for",
        ),
        (WHEN + 'glob = "a"\nanywhere = true', '"anywhere": belongs to "regex" only'),
        (WHEN + "absent = false", '"absent": may only be true'),
        (WHEN + 'below = "../x"', "\"below\": '../x': a relative folder must not climb out"),
        (WHEN + 'host_in = ["https://a.org"]', "\"host_in\": 'https://a.org': write the host alone"),
        (RULE + '[[rule.when]]\nat = "a"\nequals = 1', '"at": \'a\': a JSON pointer starts with "/"'),
        (WHEN + "equals = 1\n" + '[[rule.when]]\nat = "/a"\nequals = 1\n' * 32, "at most 32 conditions in one rule"),
        ('[[example]]\nverdict = "ask"', 'p.toml: example number 1: has no "call"'),
        ("[[example]]\ncall = { server = 's', tool = 't' }", 'p.toml: example number 1: has no "verdict"'),
        ('[[example]]\nverdict = "ask"\ncall = { tool = "t" }', 'example number 1, "call": has no "server"'),
        ('[[example]]\nverdict = "ask"\ncall = "s.t"', 'example number 1, "call": must be a table, not a string'),
        (EXAMPLE + 'rule = "nope"', "there is no rule 'nope' in this file"),
        (EXAMPLE + "arguments = {}", 'example number 1: unknown key "arguments"'),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_place(text: str, problem: str) -> None:
    whole = text if "version" in text or not text else f"version = 1\n{text}"
    with pytest.raises(ConfigError) as refused:
        parse_policy(whole.encode(), source="p.toml")
    assert problem in str(refused.value)
    assert str(refused.value).startswith("p.toml: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(b"\xff", "is not UTF-8", id="not UTF-8"),
        pytest.param(b"#" * (1024 * 1024 + 1), "is larger than 1024 KiB", id="too large"),
        pytest.param(b"version = 1\na = " + b"[" * 100_000, "is not TOML", id="nested too deeply"),
        pytest.param(b"version = 1" + "".join(
            f'\n[[rule]]\nid = "r{i}"\nverdict = "ask"' for i in range(1001)).encode(), "1001 rules",
            id="too many"),
    ],
)  # fmt: skip
def test_a_file_out_of_all_bounds_is_refused(text: bytes, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_policy(text, source="p.toml")


def test_a_file_that_cannot_be_read_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, problem in (
        (tmp_path / "no.toml", "no such file"),
        (tmp_path, "not a file"),
        (tmp_path / "pipe", "not a"),
    ):
        with pytest.raises(ConfigError, match=problem) as refused:
            load_policy_file(path)
        assert str(refused.value).endswith("name the policy with --policy FILE, policy= in Python or MOONPOOL_POLICY")


CONFIG = parse_config(
    b'{"mcpServers": {"git": {"command": "x", "moonpool": {"allow": ["*"], "deny": ["push"]}}}}', source="c", environ={}
)


def decided(path: Path, tool: str, **arguments: Any) -> tuple[Verdict, str, str]:
    facts = CallFacts(tool=ToolDefinition(server_id="git", name=tool, raw={"name": tool}), arguments=arguments)
    decision = decide(load_policy(path, CONFIG), facts)
    return decision.verdict, decision.rule_id, decision.layer


def test_a_file_and_the_blocks_are_two_layers_and_the_strictest_wins(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text('version = 1\n[[rule]]\nid = "a"\nverdict = "deny"\ntool = "tag"\n'
                    '[[rule]]\nid = "b"\nverdict = "allow"\ntool = "push"\n', encoding="utf-8")  # fmt: skip
    assert decided(path, "tag") == (Verdict.DENY, "a", "organisation")
    assert decided(path, "push") == (Verdict.DENY, "git:deny:push", "configuration")
    assert decided(path, "log") == (Verdict.ALLOW, "git:allow:*", "configuration")


def test_without_a_file_there_are_the_blocks_alone(tmp_path: Path) -> None:
    policy = load_policy(None, CONFIG)
    assert policy.layers == (blocks_layer(CONFIG),)
    assert file_digest(policy) == ""
    (tmp_path / "p.toml").write_text("version = 1", encoding="utf-8")
    alone = file_digest(load_policy(tmp_path / "p.toml", None))
    assert alone == load_policy_file(tmp_path / "p.toml").layer.digest
    (tmp_path / "s.toml").write_text('version = 1\ndefault = "deny"', encoding="utf-8")
    settings = Settings.load({}, policy=tmp_path / "p.toml", session_policy=tmp_path / "s.toml")
    both = files_digest(settings)
    assert both == file_digest(policy_in_force(settings, CONFIG)) != alone
    assert both != files_digest(Settings.load({}, policy=tmp_path / "p.toml", key_policy=tmp_path / "s.toml"))
    assert files_digest(Settings.load({})) is None


EXAMPLES = """
version = 1
[[rule]]
id = "reads"
verdict = "allow"
annotations = { readOnlyHint = true }
[[rule]]
id = "mine"
verdict = "ask"
principal = "key:ci"
language = "bash"

[[example]]
call = { server = "s", tool = "t" }
annotations = { readOnlyHint = true }
trusted = true
verdict = "allow"
rule = "reads"

[[example]]
call = { server = "s", tool = "t" }
annotations = { readOnlyHint = true }
verdict = "allow"
note = "the server is not trusted"

[[example]]
call = { server = "s", tool = "t" }
principal = "key:ci"
language = "bash"
verdict = "ask"
rule = "mine"

[[example]]
call = { server = "s", tool = "t" }
verdict = "ask"
rule = "mine"

[[example]]
call = { server = "s", tool = "t" }
verdict = "ask"
rule = "default"
"""


def test_examples_are_compared_by_verdict_and_by_rule() -> None:
    outcomes = list(run_examples(parse_policy(EXAMPLES.encode(), source="p")))
    assert [outcome.ok for outcome in outcomes] == [True, False, True, False, True]
    failed = outcomes[1].to_json()
    assert (failed["expected"], failed["verdict"], failed["rule"]) == ("allow", "ask", "default")
