"""What people may write as a domain, and what a rule covers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from moonpool.core.errors import ConfigError
from moonpool.network.roots import trusted_roots, upstream_context
from moonpool.network.rules import (
    DOMAINS_MAX,
    HeaderCredential,
    NetworkRuleError,
    NetworkRules,
    address_literal,
    host_name,
    index_rule,
    parse_domain,
)
from moonpool.settings import Settings
from network.tls_hosts import signer
from tables import every_row

if TYPE_CHECKING:
    from pathlib import Path


@every_row(
    ("text", "pattern", "ports"),
    [
        ("example.com", "example.com", (80, 443)),
        (" EXAMPLE.com. ", "example.com", (80, 443)),
        ("*.Example.com", "*.example.com", (80, 443)),
        ("example.com:8443", "example.com", (8443,)),
        ("bücher.example", "xn--bcher-kva.example", (80, 443)),
        ("fußball.example", "xn--fuball-cta.example", (80, 443)),  # not fussball.example, which is somebody else's
        ("_dmarc.example.com", "_dmarc.example.com", (80, 443)),
    ],
)
def test_a_domain_is_read_into_one_form(text: str, pattern: str, ports: tuple[int, ...]) -> None:
    rule = parse_domain(text)
    assert (rule.pattern, rule.ports, rule.credential, rule.allow_private) == (pattern, ports, None, False)


@every_row(
    "text",
    [
        "", "*", "*.", "*.com", "com", "localhost", "a..b", "-a.example", "a-.example", "exa mple.com", "example.com/x",
        "https://example.com", "user@example.com", "*.*.example.com", "a.*.example.com", "example.com:0",
        "example.com:65536", "example.com:", "example.com:80:80", "127.0.0.1", "10.1", "127.1", "0x7f.1",
        "2130706433",
        "0x7f000001", "a.0x1", "[::1]", "::1", "::ffff:10.0.0.1", "1.2.3.4.", "*.1.2.3.4", f"{'a' * 64}.example",
        ".".join(["a" * 60] * 5), "example\0.com", "example.com\n", "１２７.0.0.1", "*.co\x00m",
    ],
)  # fmt: skip
def test_what_is_no_domain_is_refused_with_a_typed_error(text: str) -> None:
    if text == "example.com\n":  # only around it
        assert parse_domain(text).pattern == "example.com"
        return
    with pytest.raises(NetworkRuleError, match="without `http://`" if "://" in text else None):
        parse_domain(text)


@every_row(
    ("pattern", "host", "port", "covered"),
    [
        ("example.com", "example.com", 443, True),
        ("example.com", "example.com", 80, True),
        ("example.com", "example.com", 22, False),
        ("example.com", "a.example.com", 443, False),
        ("example.com", "example.com.evil.example", 443, False),
        ("*.example.com", "example.com", 443, False),
        ("*.example.com", "a.b.example.com", 443, True),
        ("*.example.com", "notexample.com", 443, False),
        ("example.com:8443", "example.com", 443, False),
        ("example.com:8443", "example.com", 8443, True),
    ],
)
def test_a_rule_covers_names_and_ports_and_nothing_near_them(pattern: str, host: str, port: int, covered: bool) -> None:
    assert (NetworkRules((parse_domain(pattern),)).rule_for(host, port) is not None) is covered


def test_the_exact_rule_comes_before_the_longest_of_the_others() -> None:
    secret = HeaderCredential("Authorization", "Bearer s3cret-value")
    exact, near, far = (
        parse_domain("a.b.example.com", secret),
        parse_domain("*.b.example.com"),
        parse_domain("*.example.com"),
    )
    rules = NetworkRules((far, exact, near))
    assert rules.rule_for("a.b.example.com", 443) is exact
    assert rules.rule_for("c.b.example.com", 443) is near
    assert "s3cret-value" not in repr(rules)


def test_rules_are_added_replaced_and_taken_away() -> None:
    rules = NetworkRules().allowing([parse_domain("example.com"), parse_domain("*.example.com")])
    again = rules.allowing([parse_domain("EXAMPLE.com", HeaderCredential("X-Key", "value-of-it"))])
    assert len(again.domains) == 2
    assert again.rule_for("example.com", 443).credential is not None  # pyright: ignore[reportOptionalMemberAccess]
    assert list(map(str, again.denying(["example.com."]).domains)) == ["*.example.com"]
    with pytest.raises(NetworkRuleError):
        rules.denying(["*"])
    with pytest.raises(NetworkRuleError):
        NetworkRules().allowing(parse_domain(f"a{number}.example") for number in range(DOMAINS_MAX + 1))


def test_what_another_domain_still_allows_is_not_denied_in_silence() -> None:
    rules = NetworkRules().allowing(map(parse_domain, ("*.example.com", "a.example.com:8443", "example.org:443")))
    for name, by in (
        ("a.example.com", "*.example.com"),
        ("*.b.example.com", "*.example.com"),
        ("example.org", "example.org:443"),
    ):
        with pytest.raises(NetworkRuleError, match=f"{re.escape(name)} would still be allowed by {re.escape(by)};"):
            rules.denying([name])
    assert list(map(str, rules.denying(["*.example.com"]).domains)) == ["a.example.com:8443", "example.org:443"]
    assert len(rules.denying(["a.example.com:8443"]).domains) == 2
    narrower = rules.allowing(map(parse_domain, ("a.example.com", "b.example.com", "*.c.example.com:443")))
    names = r"a\.example\.com, b\.example\.com, \*\.c\.example\.com:443"
    with pytest.raises(
        NetworkRuleError, match=rf"^\*\.example\.com would still be allowed by {names}; deny that, too$"
    ):
        narrower.denying(["*.example.com"])


def test_what_is_not_allowed_cannot_be_denied() -> None:
    rules = NetworkRules().allowing(map(parse_domain, ("example.com", "*.example.org")))
    for name in ("exmaple.com", "example.com:8443", "example.org"):
        told = f"{name} is not among the allowed domains: example.com, *.example.org"
        with pytest.raises(NetworkRuleError, match=f"^{re.escape(told)}$"):
            rules.denying(["example.com", name])
    with pytest.raises(NetworkRuleError, match="none is"):
        NetworkRules().denying(["example.com"])


def test_the_rule_with_a_credential_comes_before_the_same_without() -> None:
    secret = HeaderCredential("Authorization", "Bearer s3cret-value")
    for texts in (("example.com", "example.com:443"), ("example.com:443", "example.com")):
        rules = NetworkRules((parse_domain(texts[0]), parse_domain(texts[1], secret)))
        rule = rules.rule_for("example.com", 443)
        assert rule is not None
        assert rule.credential is secret


@every_row(
    ("header", "value"),
    [
        ("", "value-of-it"),
        ("A B", "value-of-it"),
        ("A:", "value-of-it"),
        ("A", ""),
        ("A", "value-of-it\r\nX: y"),
        ("A", " value-of-it"),
        ("A", "value-of-it\0"),
        ("A", "välue-of-it"),
        ("A", "v" * 9000),
        ("A", "shorter"),
        ("A", "Bearer shorter"),
        *((name, "value-of-it") for name in ("Host", "content-length", "TRANSFER-ENCODING", "Connection", "Upgrade")),
        ("Accept-Encoding", "value-of-it"),
    ],
)
def test_a_credential_that_no_header_can_hold_is_refused(header: str, value: str) -> None:
    with pytest.raises(NetworkRuleError):
        HeaderCredential(header, value)


def test_a_credential_belongs_to_one_exact_domain() -> None:
    with pytest.raises(NetworkRuleError, match="one exact domain"):
        parse_domain("*.example.com", HeaderCredential("Authorization", "Bearer value-of-it"))


def test_an_index_may_be_a_short_name_or_an_address_and_only_it_may_be_private() -> None:
    assert index_rule("mirror", 3141).covers("mirror", 3141)
    rule = index_rule("[FD00::1]", 443)
    assert (rule.pattern, rule.allow_private) == ("fd00::1", True)
    with pytest.raises(NetworkRuleError):
        index_rule("a b", 443)


def test_one_host_has_one_form() -> None:
    assert host_name("EXAMPLE.com.") == "example.com"
    assert host_name("example.com..") is None
    assert address_literal("[0:0::1]") == "::1"
    assert address_literal("127.1") is None


def test_the_operators_certificate_authorities_are_read_with_the_settings(tmp_path: Path) -> None:
    roots = tmp_path / "roots.pem"
    roots.write_bytes("# Főtanúsítvány\n".encode() + signer().roots)
    assert Settings.load({}, network_ca_file=roots).network_ca_file == roots
    assert signer().roots in trusted_roots(roots)
    upstream_context(trusted_roots(roots))
    wrong = {"empty": b"", "text": b"hello", "half": signer().roots[:100], "bytes": b"\xff\xfe"}
    for name, content in wrong.items():
        (tmp_path / name).write_bytes(content)
    for name in (*wrong, "missing"):
        with pytest.raises(ConfigError, match=rf"MOONPOOL_NETWORK_CA_FILE: .*{name}: .*certificates in PEM form"):
            Settings.load({}, network_ca_file=tmp_path / name)


def test_this_machines_certificate_authorities_may_have_comments_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = tmp_path / "roots.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(roots))
    roots.write_bytes("# Főtanúsítvány\n".encode() + signer().roots)
    upstream_context(trusted_roots())
    roots.write_bytes(b"")
    with pytest.raises(ConfigError, match=r"roots\.pem: no certificate authorities can be read: it is empty"):
        trusted_roots()


def test_the_operators_bound_is_a_list_or_any_or_none() -> None:
    assert Settings.load({}).network_bound is None
    assert Settings.load({}, network="none").network_bound == NetworkRules()
    bound = Settings.load({}, network="example.com, *.example.org").network_bound
    assert bound is not None
    for text in ("a.example.org", "*.a.example.org", "*.example.org"):
        assert parse_domain(text).within(bound.domains[1])
    assert not parse_domain("example.org").within(bound.domains[1])
    assert not parse_domain("*.example.com").within(bound.domains[0])
    assert not parse_domain("example.com:8443").within(bound.domains[0])
    with pytest.raises(ConfigError, match="MOONPOOL_NETWORK"):
        Settings.load({}, network="*")
