"""`moonpool policy`, `--policy` and MOONPOOL_POLICY from the outside."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps import fixture_server
from cli.console import moonpool, run_code, write_config

TOOLS = [
    {
        "name": "create_issue",
        "inputSchema": {
            "type": "object",
            "properties": {"repo": {"type": "string"}, "title": {"type": "string"}},
            "required": ["repo"],
        },
    },
    {"name": "list_issues", "annotations": {"readOnlyHint": True}, "inputSchema": {"type": "object"}},
]
POLICY = """
version = 1

[[rule]]
id = "own-repos"
verdict = "allow"
server = "github"
tool = "create_issue"
when = [{ at = "/repo", glob = "acme/*" }]

[[rule]]
id = "partners"
verdict = "ask"
server = "github"
tool = "create_issue"
when = [{ at = "/repo", in = ["friends/site"] }]

[[rule]]
id = "foreign-repos"
verdict = "deny"
server = "github"
tool = "create_issue"
note = "issues go to acme/ only"

[[example]]
call = { server = "github", tool = "create_issue", arguments = { repo = "acme/site" } }
verdict = "allow"
rule = "own-repos"

[[example]]
call = { server = "github", tool = "create_issue", arguments = { repo = "acme/../evil" } }
verdict = "deny"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS), encoding="utf-8")
    (tmp_path / "policy.toml").write_text(POLICY, encoding="utf-8")
    server = fixture_server("recorder.py", str(tmp_path / "tools.json"), str(tmp_path / "calls"), trusted=True)
    write_config(tmp_path, {"github": server}, "moonpool.json")
    return tmp_path


CODE = """
import servers.github as github
result = []
for repo in ("acme/site", "friends/site", "evil/site", "acme/../evil"):
    call = await github.create_issue(repo=repo)
    result.append("done" if call.ok else [call.error["type"], call.error["message"]])
result.append((await github.list_issues()).ok)
"""


@pytest.mark.req("X-06")
def test_a_run_may_do_what_the_file_allows_for_these_arguments(home: Path) -> None:
    """A real sandbox, a real server: one repository is open, one asks, the others are closed."""
    ended = run_code(home, CODE, "--policy", "policy.toml", "--approve", "deny")
    own, partner, foreign, tricky, read = ended.result["data"]
    assert (own, read) == ("done", True)
    assert partner[0] == "ApprovalRejected"
    assert "the owner of the organisation policy can change rule 'partners'" in ended.stderr
    assert "the owner of" not in partner[1]  # configuration advice is the operator's
    denied = "rule 'foreign-repos' of the organisation policy denies github.create_issue (issues go to acme/ only)"
    told = f"{denied}; to allow it: the owner of the organisation policy can change rule 'foreign-repos'"
    assert ended.stderr.count(told) == 1
    assert [foreign, tricky] == [["PolicyDenied", denied]] * 2
    sent = [json.loads(line)["arguments"] for line in (home / "calls").read_text(encoding="utf-8").splitlines()]
    assert sent == [{"repo": "acme/site"}, {}]


LAYERS = {
    "MOONPOOL_KEY_POLICY": '[[rule]]\nid = "key"\nverdict = "deny"\ntool = "create_issue"\n'
    'when = [{ at = "/repo", equals = "acme/closed" }]\n',
    "MOONPOOL_SESSION_POLICY": 'default = "allow"\n[budget.session]\ncalls = 2\n',
}


def test_of_organisation_key_and_session_the_strictest_wins(home: Path) -> None:
    more = {name: str(home / name) for name in LAYERS}
    for name, text in LAYERS.items():
        (home / name).write_text("version = 1\n" + text, encoding="utf-8")
    code = """
import servers.github as github
result = []
for repo in ("acme/site", "acme/closed", "evil/site", "acme/site", "acme/site"):
    call = await github.create_issue(repo=repo)
    result.append("done" if call.ok else call.error["message"])
"""
    data = run_code(home, code, "--policy", "policy.toml", **more).result["data"]
    assert [data[0], data[3]] == ["done", "done"]
    assert data[1].startswith("rule 'key' of the key policy denies github.create_issue")
    assert data[2].startswith("rule 'foreign-repos' of the organisation policy denies")
    assert data[4] == "the budget has no room for this call: 2 of 2 tool calls per session are used"
    asked = ("policy", "explain", "github.create_issue", "--policy", "policy.toml", "--arguments")
    told = moonpool(home, *asked, '{"repo": "acme/closed"}', **more).stdout.decode()
    assert told.startswith("deny, by key (key)\n")
    assert "to allow it: the owner of the key policy can change rule 'key'\n" in told
    assert all(f"layer {name}: says " in told for name in ("organisation", "key", "session", "configuration"))
    assert "layer session: says allow, by its default\n" in told
    refused = moonpool(home, "run", "-c", "1", MOONPOOL_KEY_POLICY="no.toml").sentence
    assert refused == "no.toml: there is no such file; name the policy with MOONPOOL_KEY_POLICY [config_invalid]"


def test_the_records_name_the_version_of_the_policy(home: Path) -> None:
    code = "import servers.github as g; result = (await g.create_issue(repo='evil/x')).error['type']"
    digests = []
    for text in (POLICY, POLICY.replace("partners", "friends")):
        (home / "policy.toml").write_text(text, encoding="utf-8")
        ended = run_code(home, code, MOONPOOL_POLICY=str(home / "policy.toml"))
        assert ended.result["data"] == "PolicyDenied"
        shown = moonpool(home, "audit", "show", "--json", "--run", ended.envelope["run_id"]).stdout.splitlines()
        start, outcome, _ = (json.loads(line) for line in shown)
        assert (outcome["verdict"], outcome["rule_id"]) == ("deny", "foreign-repos")
        digests.append(start["policy_digest"])
    assert all(digest.startswith("sha256:") for digest in digests)
    assert len(set(digests)) == 2


@pytest.mark.parametrize(
    ("command", "more"),
    [
        pytest.param(("run", "-c", "1", "--policy", "no.toml"), {}, id="run"),
        pytest.param(("run", "-c", "1"), {"MOONPOOL_POLICY": "no.toml"}, id="run by setting"),
        pytest.param(("run", "-c", "1", "--policy", "no.toml", "--session", "s"), {}, id="session"),
        pytest.param(("mcp", "--policy", "no.toml"), {}, id="mcp"),
        pytest.param(("policy", "test", "no.toml"), {}, id="policy test"),
        pytest.param(("policy", "explain", "github.create_issue", "--policy", "no.toml"), {}, id="policy explain"),
    ],
)
def test_nothing_starts_without_the_file_that_was_named(home: Path, command: Any, more: dict[str, str]) -> None:
    sentence = moonpool(home, *command, **more).sentence
    remedy = "name the policy with --policy FILE, policy= in Python or MOONPOOL_POLICY"
    assert sentence == f"no.toml: there is no such file; {remedy} [config_invalid]"


def test_a_bad_policy_stops_a_run_by_its_place(home: Path) -> None:
    (home / "policy.toml").write_text(POLICY.replace('glob = "acme/*"', 'golb = "acme/*"'), encoding="utf-8")
    sentence = run_code(home, "1", "--policy", "policy.toml").sentence
    assert sentence == (
        'policy.toml: rule \'own-repos\', condition 1: unknown key "golb"; did you mean "glob"? [config_invalid]'
    )


@pytest.fixture
def session(home: Path) -> Iterator[str]:
    name = f"t{uuid.uuid4().hex[:12]}"
    yield name
    moonpool(home, "session", "close", name)


def test_a_session_keeps_the_policy_it_was_started_with(home: Path, session: str) -> None:
    code = "import servers.github as g; result = (await g.create_issue(repo='evil/x')).ok"
    assert run_code(home, code, "--policy", "policy.toml", "--session", session).result["data"] is False
    (home / "other.toml").write_text("version = 1\ndefault = 'allow'", encoding="utf-8")
    refused = run_code(home, code, "--policy", "other.toml", "--session", session)
    assert f"session '{session}' was started with another policy file; close it" in refused.sentence
    kept = run_code(home, code, "--session", session, "--approve", "auto")
    assert kept.result["data"] is False


def test_a_session_without_a_policy_is_not_used_with_one(home: Path, session: str) -> None:
    run_code(home, "1", "--session", session)
    refused = run_code(home, "1", "--session", session, "--policy", "policy.toml")
    assert f"session '{session}' was started with no policy file; close it" in refused.sentence


def explained(home: Path, *options: str, arguments: Any = None) -> dict[str, Any]:
    ended = moonpool(home, "policy", "explain", "github.create_issue", "--json", "--policy", "policy.toml",
                     "--arguments", json.dumps(arguments or {}), *options)  # fmt: skip
    assert ended.exit_code == 0, ended.stderr
    return json.loads(ended.stdout)


def test_explain_says_which_rule_decides_and_why_others_do_not(home: Path) -> None:
    told = explained(home, arguments={"repo": "friends/site"})
    assert (told["verdict"], told["rule"], told["layer"]) == ("ask", "partners", "organisation")
    organisation, configuration = told["layers"]
    assert [(rule["rule"], rule["state"]) for rule in organisation["rules"]] == [
        ("own-repos", "misses"), ("partners", "decides"), ("foreign-repos", "not reached"),
    ]  # fmt: skip
    assert organisation["rules"][0]["why"] == '/repo is "friends/site", the rule wants {"glob": ["acme/*"]}'
    assert (configuration["layer"], configuration["verdict"]) == ("configuration", None)
    assert told["problem"] is None


def test_explain_looks_annotations_and_trust_up(home: Path) -> None:
    ended = moonpool(home, "policy", "explain", "github.list_issues")
    assert ended.stdout.decode().splitlines() == [
        "allow, by default:read-only (default)",
        "because github.list_issues only reads and its server is trusted",
        "layer configuration: says nothing",
    ]


def test_explain_says_when_the_arguments_do_not_fit(home: Path) -> None:
    assert "repo" in explained(home, arguments={"title": "x"})["problem"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        pytest.param(("github.create_isue",), "create_issue", id="a misspelt tool"),
        pytest.param(("github.create_issue", "--arguments", "{"), "--arguments is not JSON", id="no JSON"),
        pytest.param(("github.create_issue", "--arguments", "[]"), "must be a JSON object", id="no object"),
        pytest.param(("github.create_issue", "--language", "pyhton"), "there is no language", id="no language"),
    ],
)
def test_explain_refuses_what_is_no_call(home: Path, options: tuple[str, ...], sentence: str) -> None:
    assert sentence in moonpool(home, "policy", "explain", *options).sentence


def test_examples_that_hold_are_counted(home: Path) -> None:
    ended = moonpool(home, "policy", "test", "policy.toml")
    assert ended.exit_code == 0
    assert ended.stdout.decode().startswith("2 of 2 examples hold (3 rules, digest sha256:")


def test_an_example_that_fails_is_shown_with_its_explanation(home: Path) -> None:
    (home / "policy.toml").write_text(
        POLICY.replace('"acme/site" } }\nverdict = "allow"', '"bad/x" } }\nverdict = "allow"'), encoding="utf-8"
    )
    ended = moonpool(home, "policy", "test", MOONPOOL_POLICY="policy.toml")
    text = ended.stdout.decode()
    assert ended.exit_code == 1
    assert "example 1" in text
    assert "allow by own-repos" in text
    assert 'own-repos (allow): misses: /repo is "bad/x", the rule wants {"glob": ["acme/*"]}' in text
    assert "1 of 2 examples hold" in text
    machine = moonpool(home, "policy", "test", "policy.toml", "--json")
    assert [json.loads(line)["ok"] for line in machine.stdout.splitlines()] == [False, True]


def test_a_policy_test_without_a_file_says_what_to_name(home: Path) -> None:
    assert "give a file or set MOONPOOL_POLICY" in moonpool(home, "policy", "test").sentence


LIMITS = """
[[rule]]
id = "nothing-out"
verdict = "deny"
after = "untrusted"
does = "sends_out"

[[label]]
tool = "create_*"
does = "sends_out"

[budget.session]
calls = 20
"""


def test_explain_supposes_what_a_session_has_read_and_used(home: Path) -> None:
    (home / "policy.toml").write_text(POLICY + LIMITS, encoding="utf-8")
    own = {"repo": "acme/site"}
    assert explained(home, arguments=own)["rule"] == "own-repos"
    assert explained(home, "--after", "untrusted", arguments=own)["rule"] == "nothing-out"
    told = explained(home, "--used", "session.calls=20", arguments=own)
    assert (told["rule"], told["layer"]) == ("budget:session.calls", "budget")
    assert told["labels"]["does"] == ["sends_out"]
    text = moonpool(home, "policy", "explain", "github.create_issue", "--policy", "policy.toml", "--arguments",
                    json.dumps(own), "--used", "session.calls=16").stdout.decode()  # fmt: skip
    assert "budget session.calls: 16 of 20 used and this call takes 1: low" in text
    assert '  nothing-out (deny): misses: after is [], the rule is for ["untrusted"]' in text
    assert "labels of the tool: does sends_out, returns nothing" in text


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        pytest.param(("--after", "secret"), "known are private, untrusted", id="no label"),
        pytest.param(("--used", "calls=3"), "must read like session.calls=20", id="no scope"),
        pytest.param(("--used", "session.calls=nan"), "must read like session.calls=20", id="no number"),
    ],
)
def test_explain_refuses_what_nobody_counts(home: Path, options: tuple[str, ...], sentence: str) -> None:
    assert sentence in moonpool(home, "policy", "explain", "github.create_issue", *options).sentence
