"""Which texts of a server's configuration are known values: in URLs, in arguments, in JSON, by name, place and look."""

from __future__ import annotations

import base64
import json
import string
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.bootstrap.tools import make_redactor
from moonpool.configuration.secrets import looks_random, looks_secret
from moonpool.configuration.servers import parse_config
from moonpool.redaction.redactor import Tally
from moonpool.settings import Settings
from tables import every_row

if TYPE_CHECKING:
    from typing import Any

    from moonpool.configuration.server_config import ServerConfig

TOKEN = "Zk3vQ9xL2mT7bR4w"
UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
LONG = "MjQ5Nzk3MTk6NDI5Y2I5NzAtZDc1Ny00"
SLASHED = "/9j/4AAQSkZJRgABAQEASABIAAD+2wBDAAMCAg=="
PLAIN_BASIC = base64.b64encode(b"me:correct-horse").decode()


def server(**entry: Any) -> ServerConfig:
    return parse_config(json.dumps({"mcpServers": {"s": entry}}).encode(), source="t", environ={}).servers[0]


@every_row(
    ("url", "secrets"),
    [
        (f"https://h/s/{LONG}/mcp", {LONG}),
        (f"https://h/v1/{UUID}/sse", {UUID}),
        (f"https://{TOKEN}@h/mcp", {TOKEN}),
        (f"https://me:hunter22@h/{TOKEN}", {"hunter22", TOKEN}),
        (f"https://h/bot12345:{TOKEN}/getMe", {f"bot12345:{TOKEN}", TOKEN}),
        (f"https://h/mcp#{TOKEN}", {TOKEN}),
        ("https://h/mcp#access_token=geheim", {"geheim"}),
        (f"https://h/mcp?x={TOKEN}&page=1", {TOKEN}),
        ("https://h/a%2Fb0C9d8E7f6A5b4C3d2", {"a%2Fb0C9d8E7f6A5b4C3d2", "a/b0C9d8E7f6A5b4C3d2"}),
        ("https://mcp.example.com/api/v1/repositories/claude-3-5-sonnet-20241022/mcp", set[str]()),
        ("https://h/getUserAccountDetailsById/server-everything-2025-11-25/Claude-3-5-Sonnet-20241022", set[str]()),
        ("https://h/Xk29-dQ7_mZ41-Ts8_Rb3q/mcp", {"Xk29-dQ7_mZ41-Ts8_Rb3q"}),
        ("https://h/9e107d9d372bb6826bd81d3542a419d6/mcp", {"9e107d9d372bb6826bd81d3542a419d6"}),
    ],
)
def test_random_parts_of_an_address_are_secrets(url: str, secrets: set[str]) -> None:
    assert server(url=url).secrets == secrets


@every_row(
    ("args", "secrets"),
    [
        (["--token", "geheim"], {"geheim"}),
        (["--token=geheim"], {"geheim"}),
        (["-token", "geheim"], {"geheim"}),
        (["--api-key", "geheim"], {"geheim"}),
        (["--apiKey=geheim"], {"geheim"}),
        (["--dbPassword", "correcthorse"], {"correcthorse"}),
        (["--github-personal-access-token", "a-b-c-d-e"], {"a-b-c-d-e"}),
        (["--token", "-Zk3vQ9xL2mT7bR4w"], {"-Zk3vQ9xL2mT7bR4w"}),
        (["--token", "--verbose"], set[str]()),
        (["-p", TOKEN], {TOKEN}),
        ([f"-p{TOKEN}"], {TOKEN}),
        ([TOKEN], {TOKEN}),
        (["-e", "API_KEY=geheim", "image"], {"geheim"}),
        (["--env=API_KEY=geheim"], {"geheim"}),
        (["--header", f"Authorization: Bearer {TOKEN}"], {f"Bearer {TOKEN}", TOKEN}),
        (["--header", "X-Api-Key:geheim"], {"geheim"}),
        (["-H", f"Authorization:Basic {PLAIN_BASIC}"], {f"Basic {PLAIN_BASIC}", PLAIN_BASIC, "correct-horse"}),
        (["mcp-remote", f"https://h/s/{LONG}/mcp"], {LONG}),
        ([f"--url=https://h/s/{LONG}/mcp"], {LONG}),
        (["postgresql://me:hunter22@h/db"], {"hunter22"}),
        (["--db=postgresql://me:hunter22@h/db"], {"hunter22"}),
        (["--config", '{"apiKey": "geheim", "region": "eu-central-1"}'], {"geheim"}),
        (['--config={"a": [{"password": "geheim"}]}'], {"geheim"}),
        (["--token", SLASHED], {SLASHED}),
        (["-y", "@modelcontextprotocol/server-github@2025.4.8", "--max-tokens", "4096000"], set[str]()),
        (
            ["--key", "/etc/ssl/key.pem", "--auth", "digest", "--author", "somebody", "--keyboard", "us-intl"],
            set[str](),
        ),
        (["-p", "8080:8080", "-v", "/home/user1/data:/data", "--project", "my-project-12"], set[str]()),
        (["run", "--rm", "-i", "ghcr.io/acme/server:1.2.3", "--session-dir", "/var/tmp/sessions"], set[str]()),
    ],
)
def test_arguments_that_say_secret_or_look_random_are_secrets(args: list[str], secrets: set[str]) -> None:
    assert server(command="c", args=args).secrets == secrets


@every_row(
    ("env", "secrets"),
    [
        ({"SIGNER": SLASHED}, {SLASHED}),
        ({"SIGNER": "/" + "aB3" * 12}, {"/" + "aB3" * 12}),
        ({"ROOT": "/srv/data/python3/MyServer2/lib"}, set[str]()),
        ({"BASE": f"https://h/hooks/{LONG}"}, {LONG}),
        (
            {"OPENAPI_MCP_HEADERS": '{"Authorization": "Bearer ntn_geheim", "Notion-Version": "2022-06-28"}'},
            {
                '{"Authorization": "Bearer ntn_geheim", "Notion-Version": "2022-06-28"}',
                "Bearer ntn_geheim",
                "ntn_geheim",
            },
        ),
    ],
)
def test_values_of_the_environment_are_looked_into(env: dict[str, str], secrets: set[str]) -> None:
    assert server(command="c", env=env).secrets == secrets


def test_the_password_of_a_basic_header_is_known_too() -> None:
    headers = {"Authorization": f"Basic {PLAIN_BASIC}"}
    assert server(url="https://h/mcp", headers=headers).secrets == {
        f"Basic {PLAIN_BASIC}", PLAIN_BASIC, "correct-horse",
    }  # fmt: skip


def test_what_is_found_is_shown_nowhere() -> None:
    found = server(url=f"https://h/s/{LONG}/mcp")
    assert LONG not in f"{found!r} {found.address}"
    config = parse_config(
        json.dumps({"mcpServers": {"s": {"command": "c", "args": ["--token", "geheim"]}}}).encode(),
        source="t",
        environ={},
    )
    redactor = make_redactor(Settings.load({}), config)
    assert redactor.text("it said geheim", Tally()) == "it said [REDACTED:SECRET_1]"


@given(st.text(alphabet=string.ascii_letters + string.digits, min_size=32, max_size=64))
def test_the_look_of_a_text_is_one_of_its_signs_alone(text: str) -> None:
    assert looks_random(text) == looks_random(f"/{text}/") == looks_random(f"x-{text}")


@pytest.mark.parametrize("name", ["SIGNER", "X"])
def test_base64_that_begins_like_a_path_is_a_secret(name: str) -> None:
    assert looks_secret(name, SLASHED)
    assert not looks_secret(name, "/usr/lib/x86_64-linux-gnu/python3.11")
