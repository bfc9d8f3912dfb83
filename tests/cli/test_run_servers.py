"""Servers that fail: the run goes on without them, and stderr says which and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cli.console import moonpool, raw_server, run_code, write_config

if TYPE_CHECKING:
    from pathlib import Path

BRIEF = {"allow": ["*"], "connect_timeout_s": 1.0, "timeout_s": 20.0}
HASTY = {"allow": ["*"], "timeout_s": 1.0}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        pytest.param({"command": "no-such-command-here"}, "was not found; install it", id="missing command"),
        pytest.param(raw_server("garbage", **BRIEF), "not MCP", id="prints garbage", marks=pytest.mark.slow),
        pytest.param(
            raw_server("close-at-once", **BRIEF), "exit status 3", id="closes at once", marks=pytest.mark.slow
        ),
        pytest.param(raw_server("never-answers", **BRIEF), "within 1 s", id="never answers"),
        pytest.param({"url": "http://127.0.0.1:9/mcp", "moonpool": BRIEF}, "http://127.0.0.1:9", id="nobody listens"),
    ],
)
def test_a_server_that_cannot_be_reached_loses_its_own_tools_only(
    tmp_path: Path, entry: dict[str, Any], said: str
) -> None:
    config = write_config(tmp_path, {"bad": entry, "good": raw_server("good")})
    code = """
import servers.good as good
try:
    import servers.bad
except ImportError as error:
    result = [await good.echo(a=1), str(error)]
"""
    ended = run_code(tmp_path, code, "--config", config)
    data = ended.result["data"]
    assert data[0] == {"a": 1}
    assert "'bad' is configured, but its tools could not be listed" in data[1]
    remark = next(line for line in ended.stderr.splitlines() if "'bad'" in line)
    assert said in remark
    assert remark.endswith("its tools are missing")
    assert "Traceback" not in ended.stderr


@pytest.mark.req("D-061", "E-003")
def test_a_server_whose_entry_cannot_be_used_is_left_out_named_and_says_why(tmp_path: Path) -> None:
    unset = {"command": "x", "env": {"K": "${SURELY_NOT_SET}"}}
    odd = {"command": "x", "env": {"K": "${hunter2 secret}"}}
    config = write_config(tmp_path, {"good": raw_server("good"), "unset": unset, "bad": {"comand": "x"}, "odd": odd})
    code = """
import servers.good as good
from client.mcp_client import call_tool
try:
    import servers.unset
except ImportError as error:
    told = str(error)
calls = [await call_tool(server_id=name, name="echo", arguments={}) for name in ("unset", "bad", "odd")]
result = [await good.echo(a=1), told, *(call.error["message"] for call in calls)]
"""
    ended = run_code(tmp_path, code, "--config", config)
    why = '"env.K" uses ${SURELY_NOT_SET}, but the environment variable SURELY_NOT_SET is not set'
    good, imported, *called = ended.result["data"]
    assert good == {"a": 1}
    assert imported == f"server 'unset' is left out: {why}"
    assert called[0] == f"unset.echo is not available: server 'unset' is left out: {why}"
    assert called[1].endswith("server 'bad' is left out: its entry cannot be used")
    assert called[2].endswith(
        "server 'odd' is left out: \"env\" cannot be used"
    )  # what stands in an entry is no model's
    assert str(config) not in str(ended.result)  # where it stands is the operator's
    brief, asked = moonpool(tmp_path, "tools", "show", "unset.echo", "--config", config).stderr.splitlines()
    assert (
        brief
        == "moonpool: the tools of unset, bad, odd are missing; `moonpool tools list`, with the same --config, says why"
    )
    assert f"server 'unset' is left out: {why}; set it, or write" in asked
    listed = moonpool(tmp_path, "tools", "list", "--config", config)
    assert (listed.exit_code, listed.stdout.decode().count("servers.")) == (0, 1)
    for stderr in (ended.stderr, listed.stderr):
        assert f"moonpool: {config}: server 'unset' is left out: {why}; set it, or write" in stderr
        assert 'server \'bad\' is left out: unknown key "comand"; did you mean "command"?' in stderr


def test_a_broken_tool_is_named_and_the_good_one_works(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"odd": raw_server("broken-tool")})
    ended = run_code(tmp_path, "import servers.odd as s\nresult = (await s.good(a=1))", "--config", config)
    assert ended.result["data"] == {"a": 1}, ended.stderr
    assert "server 'odd': " in ended.stderr


@pytest.mark.req("H-027")
@pytest.mark.parametrize(
    ("mode", "call", "expected"),
    [
        pytest.param("hangs-on-call", "await s.echo(a=1)", "Timeout", id="never answers a call"),
        pytest.param("dies-mid-call", "await s.echo(a=1)", "TransientNetwork", id="dies under a call"),
        pytest.param("good", "await s.echo(7)", "ValidationError", id="wrong arguments"),
        pytest.param("good", "await s.nope(a=1)", "AttributeError", id="unknown tool"),
    ],
)
def test_a_failing_call_is_a_typed_error_of_the_code(tmp_path: Path, mode: str, call: str, expected: str) -> None:
    # Only a call that is never answered should be short of time: a server may take a second to start.
    config = write_config(tmp_path, {"srv": raw_server(mode, **(HASTY if expected == "Timeout" else {}))})
    ended = run_code(tmp_path, f"import servers.srv as s\nresult = {call}", "--config", config)
    assert ended.error_type in {expected, "TypeError"} if mode == "good" else ended.error_type == expected, ended.stderr
