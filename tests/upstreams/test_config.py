"""Every sentence of the configuration reader, and the rule for what counts as a secret."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from moonpool.configuration.expansion import conceal
from moonpool.configuration.secrets import looks_secret
from moonpool.configuration.servers import (
    CONFIG_BYTES_MAX,
    McpConfig,
    ServerConfig,
    load_config,
    parse_config,
    resolved_key,
)
from moonpool.core.errors import ConfigError
from tables import every_row

ENVIRON = {"TOKEN": "tok-4711-abcdef", "EMPTY": "", "HOME": "/home/someone", "FLAVOUR": "production"}


def parse(document: Any, environ: dict[str, str] = ENVIRON) -> McpConfig:
    return parse_config(json.dumps(document).encode(), source="my.json", environ=environ)


def one(entry: Any) -> ServerConfig:
    return parse({"mcpServers": {"srv": entry}}).servers[0]


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        pytest.param({"command": "uvx"}, "stdio", id="a command alone is stdio"),
        pytest.param({"command": "uvx", "type": "stdio"}, "stdio", id="stdio by type"),
        pytest.param({"url": "https://h/mcp"}, "auto", id="a URL alone leaves the choice open"),
        pytest.param({"url": "https://h/sse", "type": "http"}, "http", id="an explicit type wins over the URL"),
        pytest.param({"url": "https://h/mcp", "type": "streamable-http"}, "http", id="streamable-http"),
        pytest.param({"url": "https://h/mcp", "type": "streamableHttp"}, "http", id="streamableHttp"),
        pytest.param({"url": "https://h/mcp", "type": "sse"}, "sse", id="sse"),
        pytest.param({"url": "https://h/mcp", "transport": "sse"}, "sse", id="transport is an alias of type"),
    ],
)
def test_transport_follows_type_then_command_or_url(entry: Any, transport: str) -> None:
    assert one(entry).transport == transport


def test_client_files_with_other_keys_are_read() -> None:
    config = parse({"globalShortcut": "x", "mcpServers": {"a": {"command": "c", "autoApprove": ["*"]}}, "theme": 1})
    assert (config.ids, config.servers[0].rules) == (("a",), ())


def test_vs_code_servers_key_is_an_alias() -> None:
    assert parse({"servers": {"a": {"type": "stdio", "command": "c"}}, "inputs": []}).ids == ("a",)


def test_disabled_servers_are_only_named_and_not_expanded() -> None:
    config = parse({"mcpServers": {"a": {"command": "${NOT_SET}", "disabled": True}, "b": {"command": "c"}}})
    assert (config.ids, config.disabled) == (("b",), ("a",))


def test_variables_are_expanded_everywhere_but_in_keys() -> None:
    server = one(
        {
            "command": "${HOME}/bin/${MISSING:-run}",
            "args": ["--token=${TOKEN}", "$TOKEN", "${EMPTY:-other}"],
            "env": {"A": "${env:TOKEN}"},
            "cwd": "${HOME}",
        }
    )
    assert server.command == "/home/someone/bin/run"
    assert server.args == ("--token=tok-4711-abcdef", "$TOKEN", "other")
    assert (server.env, server.cwd) == ({"A": "tok-4711-abcdef"}, "/home/someone")


def test_moonpool_block_is_typed() -> None:
    server = one({
        "command": "c",
        "moonpool": {
            "trusted": True, "timeout_s": 5, "connect_timeout_s": 2.5, "concurrency_max": 2, "idempotent": ["get_*"],
            "rules": [{"tool": "x*", "verdict": "deny"}], "allow": ["a"], "ask": ["b"], "instructions": False,
        },
    })  # fmt: skip
    assert (server.trusted, server.timeout_s, server.connect_timeout_s, server.concurrency_max) == (True, 5, 2.5, 2)
    assert [(rule.tool, rule.verdict) for rule in server.rules] == [("x*", "deny"), ("a", "allow"), ("b", "ask")]
    assert (server.idempotent, server.instructions) == (("get_*",), False)


@pytest.mark.req("G-024")
@every_row(
    ("text", "sentence"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b'{"mcpServers": {}', "at line 1, column 18", id="broken JSON"),
        pytest.param(b'{"mcpServers": {}', "line 1, column 18; put a comma", id="not closed"),
        pytest.param(b'{"mcpServers": {"a": {command: "x"}}}', "write a name in double quotes", id="a name without"),
        pytest.param(b'{"mcpServers": {"a": {"command": x}}}', 'write a value there: "text"', id="a value without"),
        pytest.param(b'\xff{"mcpServers"', "is not UTF-8 (byte 0)", id="not UTF-8"),
        pytest.param(b"[]", "must hold a JSON object", id="a list"),
        pytest.param(b"3", "not a number", id="a number"),
        pytest.param(b"{}", 'has no "mcpServers" object', id="no servers key"),
        pytest.param(b'{"mcpservers": {}}', '"mcpservers" should be "mcpServers"', id="misspelt servers key"),
        pytest.param(b'{"mcpServers": []}', "must be an object of servers by name, not a list", id="servers a list"),
        pytest.param(b'{"mcpServers": {"a": {}, "a": {}}}', "'a' is given twice", id="one name twice"),
        pytest.param(b" " * (CONFIG_BYTES_MAX + 1), "is larger than 1024 KiB", id="too large"),
        pytest.param(b"[" * 200_000, "is nested too deeply", id="too deep"),
    ],
)
def test_unusable_files_get_one_sentence(text: bytes, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, source="my.json", environ={})
    assert str(caught.value).startswith("my.json: ")
    assert sentence in str(caught.value)


@every_row(
    ("entry", "sentence"),
    [
        pytest.param([], "must be an object, not a list", id="entry is a list"),
        pytest.param({}, 'has neither "command"', id="neither"),
        pytest.param({"command": "a", "url": "http://h"}, 'has both "command" and "url"', id="both"),
        pytest.param({"command": "a", "type": "http"}, '"type" \'http\' needs "url"', id="type http without url"),
        pytest.param({"url": "http://h", "type": "stdio"}, 'needs "command"', id="type stdio without command"),
        pytest.param({"url": "http://h", "type": "websocket"}, "use stdio, http or sse", id="unknown type"),
        pytest.param({"command": " "}, '"command" is empty', id="blank command"),
        pytest.param({"command": 3}, '"command": must be a string, not a number', id="command a number"),
        pytest.param(
            {"command": "a", "args": "b"}, '"args": must be a list of strings, not a string', id="args a string"
        ),
        pytest.param(
            {"command": "a", "args": [1]}, '"args[0]": must be a string, not a number', id="argument a number"
        ),
        pytest.param({"command": "a", "env": {"P": 80}}, '"env.P" must be a string, not a number', id="env a number"),
        pytest.param({"command": "a", "env": {"A=B": "x"}}, "'A=B' cannot be a name", id="env name with ="),
        pytest.param({"command": "a\0b"}, '"command" holds NUL', id="NUL"),
        pytest.param({"url": "http://h", "headers": {"X": "a\nb"}}, "a line break", id="header with a line break"),
        pytest.param({"url": "ftp://h"}, "http:// or https:// address", id="ftp"),
        pytest.param({"url": "http://"}, "http:// or https:// address", id="no host"),
        pytest.param({"commnad": "a"}, 'unknown key "commnad"; did you mean "command"?', id="misspelt key"),
        pytest.param({"command": "a", "zzzz": 1}, "known are command, args", id="unknown key"),
        pytest.param({"command": "a", "envFile": ".env"}, "write ${NAME}", id="envFile is refused"),
        pytest.param({"serverUrl": "http://h"}, 'write "url"', id="serverUrl"),
        pytest.param({"command": "a", "oauth": {"client_id": "c"}}, '"oauth" is for servers with a "url"', id="stdio"),
        pytest.param({"command": "${NOPE}"}, '"command" uses ${NOPE}', id="unset variable in command"),
        pytest.param({"command": "a", "env": {"K": "${NOPE}"}}, '"env.K" uses ${NOPE}', id="unset variable in env"),
        pytest.param({"command": "a", "args": ["${input:x}"]}, "'${input:x}', which is not understood", id="input"),
        pytest.param({"command": "a", "moonpool": {"trust": True}}, 'did you mean "trusted"?', id="misspelt block key"),
        pytest.param(
            {"command": "a", "moonpool": {"trusted": "yes"}},
            '"trusted": must be true or false, not a string',
            id="block type",
        ),
        pytest.param(
            {"command": "a", "moonpool": {"timeout_s": 0}},
            '"moonpool": "timeout_s": must be above 0 and at most 86400, but is 0',
            id="no time at all",
        ),
        pytest.param(
            {"command": "a", "disabled": True, "moonpool": {"alow": ["*"]}}, 'did you mean "allow"?', id="disabled"
        ),
        pytest.param({"command": "a", "moonpool": {"concurrency_max": 0}}, "from 1 to 1024", id="no concurrency"),
        pytest.param(
            {"command": "a", "moonpool": {"rules": [{"tool": "*", "verdict": "maybe"}]}},
            '"moonpool", "rules[0]": "verdict": must be allow, ask or deny, but is',
            id="unknown verdict",
        ),
    ],
)
@pytest.mark.req("D-061", "E-003", "G-024", "G-041")
def test_unusable_entries_get_one_sentence(entry: Any, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        one(entry)
    assert str(caught.value).startswith("my.json: server 'srv'")
    assert sentence in str(caught.value)


@pytest.mark.req("D-061", "E-003", "G-041")
def test_an_entry_that_cannot_be_used_is_left_out_and_the_others_are_there() -> None:
    entries: dict[str, Any] = {
        "good": {"command": "a"},
        "unset": {"command": "a", "env": {"K": "${NOPE}"}},
        "key": {"commnad": "a"},
        "block": {"command": "a", "moonpool": {"alow": ["*"]}},
        "file": {"command": "a", "env": {"K": "${file:/home/me/key}"}},
        "off": {"command": "${NOPE}", "disabled": True},
    }
    text = json.dumps({"mcpServers": entries}).encode()
    config = parse_config(text, source="my.json", environ={}, leave_out=True)
    assert (config.ids, config.disabled, list(config.left_out)) == (
        ("good",), ("off",), ["unset", "key", "block", "file"],
    )  # fmt: skip
    said = {name: str(error) for name, error in config.left_out.items()}
    assert said["unset"] == (
        "my.json: server 'unset' is left out: \"env.K\" uses ${NOPE}, but the environment variable NOPE is not set; "
        "set it, or write ${NOPE:-default}"
    )
    assert 'did you mean "command"' in said["key"]
    assert 'did you mean "allow"' in said["block"]
    guest = {name: error.for_guest for name, error in config.left_out.items()}
    assert guest["unset"].endswith("the environment variable NOPE is not set")
    assert "/home/me" not in guest["file"]


def test_comments_and_trailing_commas_are_read() -> None:
    text = b'{\n // mine\n "mcpServers": {"a": {"command": "x", "args": ["//", "/*",], /* here */},}}'
    assert parse_config(text, source="my.json", environ={}).servers[0].args == ("//", "/*")


@pytest.mark.parametrize("name", ["", "  ", "x" * 129, "a\nb", "\ud800"])
def test_absurd_server_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a server's name"):
        parse({"mcpServers": {name: {"command": "a"}}})


@pytest.mark.req("F-023")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("g\u0456thub", id="a Cyrillic letter"),
        pytest.param("gith\u03c5b", id="a Greek letter"),
        pytest.param("\uff47ithub", id="a wide letter"),
        pytest.param("git\ufe00hub", id="a character that is not drawn"),
    ],
)
def test_two_servers_whose_names_look_the_same_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"servers 'github' and '.*\\[ux].*' look the same .* rename one of them"):
        parse({"mcpServers": {"github": {"command": "a"}, name: {"command": "b"}}})
    assert parse({"mcpServers": {"github": {"command": "a"}, "GitHub": {"command": "b"}}}).ids == ("github", "GitHub")
    assert parse({"mcpServers": {name: {"command": "b"}}}).ids == (name,)


def test_missing_file_names_file_and_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file; pass --config FILE"):
        load_config(tmp_path / "none.json", {})


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path, {})


def test_secrets_are_collected_and_never_printed() -> None:
    server = one(
        {
            "url": "https://me:hunter22@h/mcp?api_key=k-123456&page=1",
            "headers": {"Authorization": "Bearer ${TOKEN}", "Accept": "application/json"},
        }
    )
    assert server.secrets == {"tok-4711-abcdef", "Bearer tok-4711-abcdef", "hunter22", "k-123456"}
    assert not any(secret in f"{server!r} {server}" for secret in server.secrets)


@every_row(
    ("name", "value", "secret"),
    [
        ("API_KEY", "abcdef", True),
        ("API_KEY", "abc", False),
        ("ANY", "s3cr3t-value", True),
        ("NODE_ENV", "production", False),
        ("DEBUG", "true", False),
        ("ROOT", "/srv/data", False),
        ("TZ", "Europe/Berlin", False),
        ("PORT", "8080123", False),
        ("BASE", "http://localhost:8080/x", False),
        ("PASSWORD", "correcthorse", True),
        ("ONLY", "read_only", False),
        ("SECRET", "read_only", True),
        ("ANY", "correct-horse-battery-staple", True),
    ],
)
def test_what_counts_as_a_secret(name: str, value: str, secret: bool) -> None:
    assert looks_secret(name, value) is secret


def test_conceal_leaves_no_tail_of_a_longer_secret() -> None:
    assert conceal("x abcdefgh y", frozenset({"abcdef", "abcdefgh"})) == "x [redacted] y"


def test_a_relative_command_is_another_server_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries: dict[str, dict[str, Any]] = {
        "script": {"command": "python", "args": ["server.py"]},
        "program": {"command": "./server"},
        "option": {"command": "serve", "args": ["--config=../prod.toml"]},
        "cwd": {"command": "serve", "cwd": "prod"},
        "package": {"command": "npx", "args": ["-y", "@scope/server.js", "acme/repo", "https://h.example/a.py"]},
        "absolute": {"command": "/usr/bin/python", "args": ["/srv/server.py"]},
        "placed": {"command": "python", "args": ["server.py"], "cwd": "/srv"},
        "remote": {"url": "https://h.example/mcp"},
    }
    text = json.dumps({"mcpServers": entries}).encode()
    keys = list[dict[str, str]]()
    for name in ("staging", "production"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        config = parse_config(text, source="test", environ={})
        keys.append({server.server_id: resolved_key(server) for server in config.servers})
    differ = {name for name in entries if keys[0][name] != keys[1][name]}
    assert differ == {"script", "program", "option", "cwd"}


def test_resolved_keys_are_those_of_the_first_release() -> None:
    """Cached lists, accepted changes, plans and answers that stand are bound to them."""
    servers = {
        "plain": {"command": "/usr/bin/server", "args": ["--port", "1"], "env": {"TOKEN": "${TOKEN}"}},
        "web": {
            "type": "http",
            "url": "https://example.com/mcp",
            "headers": {"Authorization": "Bearer ${TOKEN}"},
            "oauth": {"client_id": "c", "client_secret": "${TOKEN}", "scope": "s"},
        },
        "asks": {
            "command": "/bin/x",
            "cwd": "/srv",
            "moonpool": {"roots": ["/srv/data"], "elicitation": "relay", "sampling": "ask"},
        },
    }
    document = json.dumps({"mcpServers": servers}).encode()
    config = parse_config(document, source="my.json", environ={"TOKEN": "long-enough-value"})
    assert [resolved_key(server).removeprefix("sha256:")[:16] for server in config.servers] == [
        "ad06de2e5e7df5e6",
        "1d1c52d74682058f",
        "021b1a18003ddbb4",
    ]


def test_resolved_key_follows_every_resolved_value() -> None:
    base = one({"command": "c", "args": ["${TOKEN}"]})
    same = one({"args": ["tok-4711-abcdef"], "command": "c"})
    other = one({"command": "c", "args": ["else"]})
    assert resolved_key(base) == resolved_key(same) != resolved_key(other)


@pytest.mark.req("E-030")
def in_file(path: Path, folder: Path) -> ServerConfig:
    config = folder / "servers.json"
    entry = {"command": "x", "env": {"WORD": f"${{file:{path}}}"}}
    config.write_text(json.dumps({"mcpServers": {"s": entry}}), encoding="utf-8")
    read = load_config(config, {})
    if left_out := read.left_out.get("s"):
        raise left_out
    return read.servers[0]


def test_a_value_comes_from_a_file_of_its_own_and_is_always_redacted(tmp_path: Path) -> None:
    secret = tmp_path / "word"
    secret.write_text("production\n", encoding="utf-8")
    server = in_file(secret, tmp_path)
    assert (server.env, server.secrets) == ({"WORD": "production"}, {"production"})
    (tmp_path / "link").symlink_to(secret)
    assert in_file(tmp_path / "link", tmp_path).env == {"WORD": "production"}


@pytest.mark.parametrize(
    ("content", "mode", "told"),
    [
        (b"x", 0o666, "could be changed by other users"),
        (b"", 0o600, "is empty"),
        (b"\xff\xfe", 0o600, "is not UTF-8"),
        (b"x" * 70_000, 0o600, "is larger than 64 KiB"),
        (None, 0, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_gives_no_value_is_named_with_the_reason(
    tmp_path: Path, content: bytes | None, mode: int, told: str
) -> None:
    secret = tmp_path / "word"
    if content is not None:
        secret.write_bytes(content)
        secret.chmod(mode)
    with pytest.raises(ConfigError, match=f'"env.WORD" uses .*{re.escape(str(secret))}.*{told}'):
        in_file(secret, tmp_path)


def test_a_pipe_a_folder_or_a_relative_path_is_no_value_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for other in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ConfigError, match="is no regular file"):
            in_file(other, tmp_path)
    with pytest.raises(ConfigError, match="is no absolute path"):
        in_file(Path("word"), tmp_path)


def test_a_stored_secret_is_put_in_and_always_redacted() -> None:
    document = {
        "mcpServers": {"srv": {"url": "https://h/mcp", "oauth": {"client_id": "c", "client_secret": "${secret:a.b}"}}}
    }
    config = parse_config(json.dumps(document).encode(), source="my.json", environ={}, stored={"a.b": "production"}.get)
    assert config.servers[0].oauth.client_secret == "production"
    assert config.secrets == {"production"}
    assert "production" not in repr(config)
    assert "production" not in repr([*config.servers[0].__rich_repr__(), *config.servers[0].oauth.__rich_repr__()])


@pytest.mark.parametrize(
    ("oauth", "problem"),
    [
        ({"client_id": "${secret:none}"}, "moonpool secrets set none"),
        ({"client_id": "${secret:../x}"}, "names the secret '../x'"),
        ({"clientid": "c"}, 'did you mean "client_id"'),
        ({"client_secret": "s"}, '"client_secret" needs "client_id"'),
        ({"redirect_uri": "http://example.com/cb"}, '"redirect_uri" must be'),
        ({"client_metadata_url": "http://h/x"}, '"client_metadata_url" must be'),
    ],
)
def test_an_oauth_block_that_cannot_be_used_is_refused(oauth: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)):
        one({"url": "https://h/mcp", "oauth": oauth})
