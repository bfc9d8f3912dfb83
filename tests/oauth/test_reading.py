"""What servers say, read without believing it: challenges, addresses, metadata."""

from __future__ import annotations

import pytest

from moonpool.configuration.oauth_settings import OAuthSettings
from moonpool.oauth.addresses import (
    canonical,
    check_address,
    covers,
    issuer_metadata_addresses,
    resource_metadata_addresses,
    same_issuer,
)
from moonpool.oauth.challenge import Challenge, bearer_challenge
from moonpool.oauth.errors import OAuthError
from moonpool.oauth.metadata import default_issuer


@pytest.mark.req("E-023")
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param([], Challenge(), id="none"),
        pytest.param(["Bearer"], Challenge(), id="bare"),
        pytest.param(
            ['Bearer error="insufficient_scope", scope="a b"'],
            Challenge(error="insufficient_scope", scopes=("a", "b")), id="quoted",
        ),
        pytest.param(["bearer scope=a"], Challenge(scopes=("a",)), id="token and lower case"),
        pytest.param(
            ['Basic realm="scope=\\"evil\\", Bearer scope=evil", BEARER  scope = "a" ,error=x'],
            Challenge(error="x", scopes=("a",)), id="a quoted string that looks like a challenge",
        ),
        pytest.param(
            ["Negotiate YIIabc==", "Bearer", 'Bearer resource_metadata="https://h/m"'],
            Challenge(resource_metadata="https://h/m"), id="several headers and token68",
        ),
        pytest.param([',,, Bearer scope="a', "\x00\xff="], Challenge(), id="garbage"),
    ],
)  # fmt: skip
def test_a_challenge_is_read(headers: list[str], expected: Challenge) -> None:
    assert bearer_challenge(headers) == expected


@pytest.mark.req("E-039", "L-028")
@pytest.mark.parametrize(
    ("url", "server"),
    [
        pytest.param("http://as.example/", "https://h/mcp", id="plain http"),
        pytest.param("http://127.0.0.1:5/", "https://h/mcp", id="a remote server names a loopback address"),
        pytest.param("https://user:pw@h/", "https://h/mcp", id="credentials in it"),
        pytest.param("https://h/#f", "https://h/mcp", id="a fragment"),
        pytest.param("file:///etc/passwd", "https://h/mcp", id="another scheme"),
        pytest.param("https://h/\nx", "https://h/mcp", id="a line break"),
        pytest.param("https://", "https://h/mcp", id="no host"),
    ],
)
def test_an_unsafe_address_is_refused(url: str, server: str) -> None:
    with pytest.raises(OAuthError):
        check_address(url, "thing", server_url=server)


def test_programs_of_this_machine_need_no_https() -> None:
    assert check_address("http://[::1]:5/x", "thing", server_url="http://localhost:3/mcp")


@pytest.mark.req("L-023", "L-024")
def test_where_metadata_may_lie() -> None:
    well = "/.well-known/"
    assert resource_metadata_addresses("https://h/a/mcp", "") == (
        f"https://h{well}oauth-protected-resource/a/mcp",
        f"https://h{well}oauth-protected-resource",
    )
    assert issuer_metadata_addresses("https://as/t1") == (
        f"https://as{well}oauth-authorization-server/t1",
        f"https://as{well}openid-configuration/t1",
        f"https://as/t1{well}openid-configuration",
    )
    assert len(issuer_metadata_addresses("https://as/")) == 2


@pytest.mark.req("E-028")
def test_a_server_without_metadata_has_the_default_paths_at_its_root() -> None:
    assert default_issuer("https://h/v1/mcp").token_endpoint == "https://h/token"


@pytest.mark.parametrize(
    ("resource", "url", "expected"),
    [
        ("https://h/mcp", "https://h/mcp", True),
        ("https://H:443/", "https://h/mcp", True),
        ("https://h/m", "https://h/mcp", False),
        ("https://h/mcp/x", "https://h/mcp", False),
        ("https://h.evil/mcp", "https://h/mcp", False),
        ("http://h/mcp", "https://h/mcp", False),
    ],
)
def test_a_resource_covers_what_lies_below_it(resource: str, url: str, *, expected: bool) -> None:
    assert covers(resource, url) is expected


@pytest.mark.req("L-002")
def test_issuers_and_resources_are_compared_as_they_are() -> None:
    assert same_issuer("https://as", "https://as/")
    assert not same_issuer("https://as/t", "https://as/t/")
    assert canonical("HTTPS://Host:443/mcp?q#f") == "https://host/mcp"


@pytest.mark.req("E-033")
@pytest.mark.parametrize(
    ("uri", "fine"),
    [
        ("http://example.com/cb", False),
        ("http://localhost:1/cb", True),
        ("https://h/cb", True),
        ("x://localhost", False),
    ],
)
def test_a_person_comes_back_to_this_machine_or_by_https(uri: str, *, fine: bool) -> None:
    assert (OAuthSettings(redirect_uri=uri).problem() == "") is fine
