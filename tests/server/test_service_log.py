"""What `moonpool serve` says with `--settings` and `--log-format json`, as a process; and `moonpool settings`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import httpx2
import pytest

from cli.console import moonpool
from moonpool.core.errors import ConfigError
from moonpool.settings import Settings
from server.services import execute
from server.test_serve_command import Serving

if TYPE_CHECKING:
    from pathlib import Path

CANARY = "canary-5f1d2c"


@pytest.mark.req("F-009", "G-021", "G-022", "G-023")
def test_every_request_is_a_line_of_json_without_what_it_holds(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    settings = tmp_path / "moonpool.toml"
    settings.write_text('pool_low = 0\nenvironment = "base"\n', encoding="utf-8")
    made = json.loads(
        moonpool(tmp_path, "keys", "create", "--data-dir", state, "--org", "acme", "--json").stdout
    )  # fmt: skip
    options = ["--data-dir", str(state), "--settings", str(settings), "--log-format", "json", "--log-level", "debug"]
    with Serving(tmp_path, *options, keys=True) as serving:
        authorization = f"Bearer {made['key']}"
        done = serving.post(execute(f"print({CANARY!r})\nresult = {CANARY!r}"), authorization=authorization)
        base = serving.url.removesuffix("/mcp")
        strange = httpx2.get(f"{base}/no%1b[2Jwhere?token={CANARY}", headers={"authorization": f"Bearer {CANARY}"})
        message = httpx2.post(f"{base}/message?sessionId={CANARY}", json=execute("1"))
        serving.stop()
    assert [done.status_code, strange.status_code, message.status_code] == [200, 401, 401]

    said = [json.loads(line) for line in "".join(serving.said).splitlines()]
    assert all({"at", "level", "logger"} <= line.keys() for line in said)
    requests = [line for line in said if line["logger"] == "request"]
    (called,) = [line for line in requests if line["request"] == done.headers["x-request-id"]]
    assert called["ms"] > 0
    assert called.items() >= {
        "organisation": "acme", "principal": f"key:{made['id']}", "http": "POST", "path": "/mcp",
        "method": "tools/call", "status": 200, "bytes_in": len(done.request.content), "bytes_out": len(done.content),
    }.items()  # fmt: skip
    assert [line["status"] for line in requests if line["path"].startswith("/no")] == [401]
    everything = "".join(serving.said)
    assert CANARY not in everything
    assert made["key"] not in everything
    assert "\x1b" not in everything


@pytest.mark.req("G-023")
def test_settings_of_a_file_are_shown_without_secrets_and_variables_win(tmp_path: Path) -> None:
    file = tmp_path / "moonpool.toml"
    file.write_text(
        'pool_low = 1\npool_high = 6\npolicy = "rules.toml"\napproval_command = "notify --token hush"\n'
        'database_url = "postgresql://me:hu/sh?@db/moonpool?password=hush"\n',
        encoding="utf-8",
    )
    shown = moonpool(tmp_path, "settings", "--settings", file, "--json", MOONPOOL_POOL_LOW="3")
    told = json.loads(shown.stdout)
    del told["data_dir"]  # the tests' own
    assert told == {
        "policy": str(tmp_path / "rules.toml"),
        "approval_command": "notify ...",
        "pool_low": 3,
        "pool_high": 6,
        "database_url": "postgresql://db/moonpool",
    }
    every = moonpool(tmp_path, "settings", "--all", "--json", MOONPOOL_SETTINGS_FILE=str(file))
    assert json.loads(every.stdout)["caller_rate_limit"] == "60000/min"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("pool_lo = 1", "'pool_lo' is not a setting of Moonpool; did you mean pool_low?", id="unknown"),
        pytest.param("pool_low = 'x'", "must be a whole number", id="wrong type"),
        pytest.param("caller_quota = '5'", "the quota must be none, or a number", id="wrong value"),
        pytest.param("pool_low =", "are no TOML", id="no TOML"),
    ],
)
def test_a_file_of_settings_that_is_wrong_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "moonpool.toml"
    file.write_text(text, encoding="utf-8")
    ended = moonpool(tmp_path, "settings", "--settings", file)
    assert (ended.exit_code, str(file) in ended.stderr, said in ended.stderr) == (2, True, True)


def test_an_empty_folder_is_not_the_current_one() -> None:
    with pytest.raises(ConfigError, match="MOONPOOL_DATA_DIR is empty; name a folder"):
        Settings.load({"MOONPOOL_DATA_DIR": ""})


def test_a_file_of_settings_that_others_can_write_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "moonpool.toml"
    file.write_text("pool_low = 1", encoding="utf-8")
    file.chmod(0o666)
    ended = moonpool(tmp_path, "serve", "--no-auth", "--settings", file)
    assert (ended.exit_code, "nobody else can write" in ended.stderr) == (2, True)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ConfigError, match="must be a file"):  # at once, whoever may write to it
        Settings.load({"MOONPOOL_SETTINGS_FILE": str(tmp_path / "pipe")})
