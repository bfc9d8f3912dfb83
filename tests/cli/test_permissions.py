"""`moonpool allow`, `deny` and the questions of `init`: what is written is what code may do from then on."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING, Any

import pytest

from apps import fixture_server
from cli.console import moonpool, run_code
from cli.terminal import Terminal
from moonpool.configuration.jsonc import without_comments
from moonpool.configuration.permissions import condition_of, with_permission
from moonpool.configuration.servers import load_config
from moonpool.core.errors import ConfigError
from tables import every_row

if TYPE_CHECKING:
    from pathlib import Path

ODD = 'go*"]},{\u202e\n\x1b[31m// /* no'
SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}}
TOOLS: list[dict[str, Any]] = [
    {"name": "read", "annotations": {"readOnlyHint": True}, "inputSchema": SCHEMA},
    {"name": "write", "inputSchema": SCHEMA},
    {"name": "wipe", "annotations": {"destructiveHint": True}, "inputSchema": SCHEMA},
    {"name": ODD, "inputSchema": SCHEMA},
]
TEXT = """{
  // what I use
  "mcpServers": {
    "box": %s // mine
  }
}
"""
CALLS = """
from client.mcp_client import call_tool
result = []
for word in ("a", "rm -rf"):
    for tool in ("read", "write"):
        call = await call_tool(server_id="box", name=tool, arguments={"word": word})
        result.append("done" if call.ok else call.error["type"] + ": " + call.error["message"])
"""


def entry(folder: Path) -> dict[str, Any]:
    (folder / "tools.json").write_text(json.dumps(TOOLS), encoding="utf-8")
    made = fixture_server("recorder.py", str(folder / "tools.json"))
    del made["moonpool"]
    return made


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "moonpool.json"
    path.write_text(TEXT % json.dumps(entry(tmp_path)), encoding="utf-8")
    path.chmod(0o640)
    return path


def block(path: Path, server: str = "box") -> Any:
    return json.loads(without_comments(path.read_text(encoding="utf-8")))["mcpServers"][server].get("moonpool")


@pytest.mark.req("X-06", "H-074")
def test_what_is_allowed_and_denied_is_what_a_run_may_do(tmp_path: Path, config: Path) -> None:
    allowed = moonpool(tmp_path, "allow", "box.read", "box.write")
    denied = moonpool(tmp_path, "deny", "box.write", "--when", "/word=rm*")
    assert (allowed.exit_code, denied.exit_code) == (0, 0), allowed.stderr + denied.stderr
    assert f"allowed box.write in {config}" in allowed.stdout.decode()
    assert block(config) == {
        "allow": ["read", "write"],
        "rules": [{"tool": "write", "verdict": "deny", "when": [{"at": "/word", "glob": "rm*"}]}],
    }
    assert "// what I use" in config.read_text(encoding="utf-8")
    assert "// mine" in config.read_text(encoding="utf-8")
    assert stat.S_IMODE(config.stat().st_mode) == 0o640

    ended = run_code(tmp_path, CALLS)
    *done, refused = ended.result["data"]
    assert done == ["done"] * 3
    assert refused == "PolicyDenied: rule 'box:deny:write' denies box.write with these arguments"
    assert f"{refused.partition(': ')[2]}; to allow it: change rule 'box:deny:write' in the server's" in ended.stderr

    record = moonpool(tmp_path, "audit", "show", "--run", ended.envelope["run_id"])
    assert record.stderr.endswith(
        "moonpool: to allow what was refused, with that run's --config if it had one: moonpool allow box.write\n"
    )

    again = moonpool(tmp_path, "deny", "box.read")
    assert block(config)["deny"] == ["read"]
    assert block(config)["allow"] == ["write"]  # one word about a tool
    assert again.exit_code == 0


def test_names_are_matched_exactly_and_what_is_still_decided_otherwise_is_said(tmp_path: Path, config: Path) -> None:
    odd = moonpool(tmp_path, "allow", f"box.{ODD}")
    assert odd.exit_code == 0, odd.stderr
    assert block(config) == {"allow": [ODD.replace("*", "[*]").replace("\x1b[", "\x1b[[]")]}
    assert "\x1b" not in odd.stdout.decode() + config.read_text(encoding="utf-8")
    useless = moonpool(tmp_path, "allow", f"box.{ODD}", "--when", "/word=a")
    assert useless.exit_code == 0, useless.stderr
    every = moonpool(tmp_path, "allow", "box.*")
    assert every.exit_code == 1
    assert "but box.wipe: ask, because the server declares box.wipe destructive" in every.stderr
    useless = moonpool(tmp_path, "allow", "box.read", "--when", "/word=a")
    assert "but box.read is allowed with any arguments: rule 'box:allow:*' allows box.read" in useless.stderr
    star = [*TOOLS, {"name": "*", "inputSchema": SCHEMA}]
    (tmp_path / "tools.json").write_text(json.dumps(star), encoding="utf-8")
    moonpool(tmp_path, "tools", "list", "--refresh")
    denied = moonpool(tmp_path, "deny", "box.*")  # a server cannot take it back by a tool of that name
    assert (denied.exit_code, block(config)["deny"]) == (0, ["*", "[*]"])
    before = config.read_bytes()
    assert "near names: write" in moonpool(tmp_path, "allow", "box.wrte").sentence
    assert "has no tool that 'x_*' matches" in moonpool(tmp_path, "allow", "box.x_*").sentence
    mistyped = moonpool(tmp_path, "deny", "box.w*", "--when", "/wrod=rm*").sentence
    assert "box.write declares no parameter 'wrod'; did you mean 'word'? Valid parameters" in mistyped
    assert config.read_bytes() == before
    several = moonpool(tmp_path, "allow", "box.w*").stdout.decode()
    assert f"allowed box.w* in {config}; it matches wipe (declared destructive), write\n" in several
    with_ghost = config.read_text(encoding="utf-8").replace('"box": {', '"ghost": {"command": "/none"}, "box": {')
    config.write_text(with_ghost, encoding="utf-8")
    unknown = moonpool(tmp_path, "allow", "ghost.x").stdout.decode()
    assert "; the tools of ghost are not known now, so whether it has such a tool was not checked\n" in unknown
    trusted = moonpool(tmp_path, "allow", "box", "--reads")
    assert trusted.exit_code == 0
    assert block(config)["trusted"] is True


@every_row(
    ("text", "told"),
    [
        ('{"mcpServers": {"box": {"command": "x"},\n "b": }}', "line 2, column 7; write a value there"),
        ('{"mcpServers": {"box": {"command": "x"}, "box": {}}}', "'box' is given twice"),
        ('{"mcpServers": {"box": {"command": "x", "moonpool": {"allow": "read"}}}}', '"allow" is not a list'),
        ('{"mcpServers": {"box": {"command": "x", "moonpool": 3}}}', "there is no object or list in line 1"),
        ('{"mcpServers": {"other": {"command": "x"}}}', "there is no server 'box'; there are other"),
        ('{"mcpServers": {"box": {"command": "x", "args": [%s]}}}' % ("1" * 5000), "is not JSON: Exceeds the limit"),
        ("[]", "must hold a JSON object"),
        ('{"mcpServers": {"box": {"command": "x"}}, "more": ' + "[" * 600 + "]" * 600 + "}", "is nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_changed_safely_is_refused_with_the_place(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        with_permission(text.encode(), "my.json", "box", "allow", ["read"])
    assert str(caught.value).startswith("my.json: ")
    assert told in str(caught.value)


@every_row(
    ("text", "condition"),
    [
        ("/repo=acme/*", {"at": "/repo", "glob": "acme/*"}),
        ('{"at": "/path", "below": "/srv"}', {"at": "/path", "below": "/srv"}),
        ("repo=acme", None),
        ("/repo", None),
        ('{"at": "/path"}', None),
        ('{"at": "/path", "regex": "("}', None),
        ('{"at', None),
    ],
)
def test_conditions_are_those_of_a_policy(text: str, condition: dict[str, str] | None) -> None:
    if condition is None:
        with pytest.raises(ConfigError, match="--when"):
            condition_of(text)
    else:
        assert condition_of(text) == condition


def changed(entry_block: dict[str, Any], *change: Any) -> Any:
    content = json.dumps({"mcpServers": {"box": {"command": "x", "moonpool": entry_block}}}).encode()
    return json.loads(with_permission(content, "my.json", "box", *change))["mcpServers"]["box"]["moonpool"]


def test_a_denial_with_conditions_takes_no_denial_back_and_equal_in_python_is_not_the_same_condition() -> None:
    yes, one = condition_of('{"at": "/n", "equals": true}'), condition_of('{"at": "/n", "equals": 1}')
    then = changed({"deny": ["push"], "allow": ["*"]}, "deny", ["push"], [yes])
    assert then["deny"] == ["push"]
    rules = changed(then, "deny", ["push"], [one])["rules"]
    assert [json.dumps(rule["when"][0]["equals"]) for rule in rules] == ["true", "1"]


def test_ten_thousand_names_are_written_at_once_and_what_could_not_be_read_again_is_not() -> None:
    names = [f"tool_{number}" for number in range(10_000)]
    assert changed({"ask": names[:2]}, "allow", names) == {"ask": [], "allow": names}
    with pytest.raises(ConfigError, match="is larger than"):
        changed({}, "allow", [name.ljust(200, "x") for name in names])


# --- init


@pytest.mark.req("X-06")
def test_init_shows_at_a_terminal_what_is_asked_about_and_writes_what_is_chosen(tmp_path: Path) -> None:
    servers = {name: entry(tmp_path) for name in ("careful", "reader", "all")}
    servers["all"]["env"] = {"LD_PRELOAD": ""}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    with Terminal(tmp_path, "init", "--no-data", "--to", "mine.json", columns=200) as terminal:
        at = terminal.wait_for("Start them now? y = yes, n = no: ")
        assert f"  reader: {servers['reader']['command']} " in terminal.screen
        assert "with LD_PRELOAD\n" in terminal.screen
        terminal.type("y\n")
        for answer in ("", "?", "r", "e"):
            at = terminal.wait_for("everything it has now: ", after=at)
            terminal.type(answer + "\n")
        ended = terminal.wait_ended()
    path = tmp_path / "mine.json"
    names = [tool["name"] for tool in TOOLS[:3]]
    assert [block(path, name) for name in servers][:2] == [None, {"trusted": True}]
    assert block(path, "all")["allow"][:3] == names  # by name: a tool that comes later is asked about
    assert "careful (4 tools): code asks before read, write, wipe, " in terminal.screen
    assert "it declares read-only: read\n" in terminal.screen
    assert "\x1b[31m" not in terminal.screen + ended.stdout.decode()
    said = ended.stdout.decode()
    assert "reader: code asks before write, wipe, " in said

    marker = tmp_path / "started"
    hostile = {"command": "touch", "args": [str(marker)]}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": hostile}}), encoding="utf-8")
    for typed, exit_code in (("\n", 0), ("\x03", 130)):
        with Terminal(tmp_path, "init", "--no-data", "--to", f"no{exit_code}.json") as terminal:
            terminal.wait_for("Start them now? y = yes, n = no: ")
            terminal.type(typed)
            assert terminal.wait_ended().exit_code == exit_code
    assert not marker.exists()  # a project's file starts nothing by being there
    assert "all: code calls all of its tools without a question" in said


def test_init_without_a_terminal_allows_nothing_but_what_its_options_say(tmp_path: Path) -> None:
    gone: dict[str, Any] = {"command": "no-such-command-here"}
    servers = {"one": entry(tmp_path), "two": entry(tmp_path), "gone": gone}
    rules = [{"tool": "*", "verdict": verdict} for verdict in ("allow", "deny")]
    wants = {"allow": ["*"], "trusted": True, "rules": rules, "sampling": "relay", "roots": ["/srv"]}
    forward: dict[str, Any] = {"tw\u043e": gone, "\x1b[2J": gone, "bold": {**gone, "moonpool": wants}}
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode/mcp.json").write_text(json.dumps({"servers": forward}), encoding="utf-8")
    own = tmp_path / ".cursor/mcp.json"
    own.parent.mkdir()
    own.write_text(json.dumps({"mcpServers": {"gone": {"command": "mine"}}}), encoding="utf-8")
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    (tmp_path / "other.json").write_text(
        json.dumps({"mcpServers": {"theirs": {"command": "touch", "args": [str(tmp_path / "started")]}, **servers}}),
        encoding="utf-8",
    )
    named = moonpool(tmp_path, "init", "--from", "other.json", "--to", "named.json", "--trust", "one")
    assert (named.exit_code, block(tmp_path / "named.json", "one")) == (0, {"trusted": True})
    assert not (tmp_path / "started").exists()
    silent = moonpool(tmp_path, "init", "--to", "silent.json")
    assert (
        "code asks before it calls any tool of these servers; to change that: moonpool allow" in silent.stdout.decode()
    )
    assert [block(tmp_path / "silent.json", name) for name in servers] == [None] * 3
    # A project's file gives itself nothing, takes no name of the person's, and does not stop the others by its own.
    assert block(tmp_path / "silent.json", "bold") == {"rules": rules[1:]}
    assert (
        "found bold (.vscode/mcp.json), without allow, trusted, rules, sampling, roots of its" in silent.stdout.decode()
    )
    assert load_config(tmp_path / "silent.json", {}).find("gone").command == "mine"  # type: ignore[union-attr]
    assert "skipped tw\u043e (.vscode/mcp.json): the name is taken" in silent.stdout.decode()
    assert "\x1b" not in silent.stdout.decode()
    chosen = moonpool(tmp_path, "init", "--to", "mine.json", "--trust", "one", "--allow", "*")
    assert chosen.exit_code == 0, chosen.stderr
    assert block(tmp_path / "mine.json", "one") == {"trusted": True}
    assert block(tmp_path / "mine.json", "two")["allow"][:3] == ["read", "write", "wipe"]
    assert block(tmp_path / "mine.json", "gone") is None
    assert "gone: whatever tools it has are asked about" in chosen.stdout.decode()
    assert not (tmp_path / "started").exists()
    unknown = moonpool(tmp_path, "init", "--to", "none.json", "--trust", "nobody")
    assert "no server 'nobody' is imported" in unknown.stderr
    assert not (tmp_path / "none.json").exists()
