"""Requests that cannot be run: one sentence that names the thing and the remedy, exit code 2, nothing on stdout."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cli.console import moonpool, raw_server, run_code, write_config

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"", "it is empty", id="0 bytes"),
        pytest.param(b" \n\t\n", "it is empty", id="white space"),
        pytest.param(b"x = '\xff'", "not UTF-8 (byte 5)", id="not UTF-8"),
        pytest.param(b"#" * 1_000_001, "larger than 1,000,000 bytes", id="over 1 MB"),
        pytest.param(b"x = 1\0", "NUL", id="a NUL character"),
    ],
)
@pytest.mark.parametrize("how", ["file", "stdin"])
def test_code_that_cannot_be_run_is_refused(tmp_path: Path, content: bytes, expected: str, how: str) -> None:
    path = tmp_path / "code.py"
    path.write_bytes(content)
    ended = moonpool(tmp_path, "run", str(path) if how == "file" else "-", stdin=content)
    assert expected in ended.sentence


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["missing.py"], "missing.py: there is no such file", id="missing file"),
        pytest.param(["."], ". is a folder", id="a folder"),
        pytest.param(["-c", "1", "x.py"], "not both", id="file and -c"),
        pytest.param(["-c", ""], "it is empty", id="empty -c"),
        pytest.param(["-c", b"'\xff'"], "not UTF-8", id="-c that is not UTF-8"),
        pytest.param(["-c", "1", "--env", "moon"], "unknown environment 'moon'", id="unknown environment"),
        pytest.param(["-c", "1", "--backend", "trust"], "backend must be", id="unknown backend"),
        pytest.param(["-c", "1", "--timeout", "-1"], "timeout", id="negative timeout"),
        pytest.param(["-c", "1", "--timeout", "nan"], "timeout", id="timeout that is no number"),
        pytest.param(["-c", "1", "--config", "no.json"], "no.json: there is no such file", id="missing config"),
        pytest.param(["-c", "1", "--session", "../x"], "cannot name a session", id="bad session name"),
        pytest.param(["-c", "1", "--workspace", "/"], "/ cannot be attached: it is the system's own", id="the root"),
        pytest.param(["-c", "1", "--workspace", "."], "it is a home, or holds one", id="the home"),
        pytest.param(["-c", "1", "--allow-network", "*.com"], "a whole top-level domain", id="too wide a network"),
        pytest.param(
            ["-c", "1", "--allow-network", "a.example", "--dry-run"], "--dry-run is about", id="rehearsed network"
        ),
    ],
)
def test_a_command_line_that_cannot_be_used_is_refused(
    tmp_path: Path, arguments: list[str | bytes], expected: str
) -> None:
    assert expected in moonpool(tmp_path, "run", *arguments).sentence


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(["run", "-c", ""], "input_invalid", id="a request"),
        pytest.param(["run", "-c", "1", "--config", "no.json"], "config_invalid", id="a configuration"),
    ],
)
def test_a_refusal_ends_in_its_code(tmp_path: Path, arguments: list[str], code: str) -> None:
    assert moonpool(tmp_path, *arguments).sentence.endswith(f" [{code}]")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param("{", "is not JSON", id="bad JSON"),
        pytest.param('{"servers": []}', "must be an object", id="servers as a list"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_refused(tmp_path: Path, config: str, expected: str) -> None:
    path = tmp_path / "servers.json"
    path.write_text(config, encoding="utf-8")
    assert expected in run_code(tmp_path, "result = 1", "--config", path).sentence


def test_a_setting_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    ended = run_code(tmp_path, "result = 1", MOONPOOL_TIMEOUTS="1")
    assert "did you mean MOONPOOL_TIMEOUT_S?" in ended.sentence


def test_a_wrong_option_shows_how_the_command_is_used(tmp_path: Path) -> None:
    ended = moonpool(tmp_path, "run", "--tiemout", "3")
    assert (ended.exit_code, ended.stdout) == (2, b"")
    assert ended.sentence.startswith("no such option '--tiemout'")
    assert ended.sentence.endswith(" See `moonpool run --help` [input_invalid]")


def test_a_traceback_is_shown_to_those_who_ask_for_it(tmp_path: Path) -> None:
    ended = moonpool(tmp_path, "run", "missing.py", MOONPOOL_DEBUG="1")
    assert ended.stdout == b""
    assert "Traceback" in ended.stderr


def test_a_configuration_in_the_working_folder_is_found(tmp_path: Path) -> None:
    write_config(tmp_path, {"here": raw_server("good")}, "moonpool.json")
    ended = run_code(tmp_path, "import servers.here as s\nresult = (await s.echo(a=1))")
    assert ended.result["data"] == {"a": 1}, ended.stderr


def test_the_configuration_that_init_writes_is_found(tmp_path: Path) -> None:
    client = write_config(tmp_path, {"mine": raw_server("good")}, "client.json")
    assert moonpool(tmp_path, "init", "--from", client).exit_code == 0
    listed = moonpool(tmp_path, "tools", "list", "--json")
    assert [json.loads(line)["serverId"] for line in listed.stdout.splitlines()] == ["mine"], listed.stderr
