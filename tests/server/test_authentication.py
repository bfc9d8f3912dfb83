"""Who is behind a request: keys as credentials, the limit on failed ones, and addresses behind proxies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.core.errors import ConfigError
from moonpool.features.keys.model import KeySpec
from moonpool.features.keys.service import Keys
from moonpool.features.organisations.service import Organisations
from moonpool.net.forwarded import client_address, trusted_networks
from moonpool.server.http.authentication import failures as failures_module
from moonpool.server.http.authentication.failures import (
    FAILURES_MAX,
    WITHIN_S,
    ClientAddresses,
    FailedAuthentications,
)
from moonpool.server.http.authentication.keys import KeyAuthenticator
from moonpool.server.http.callers import AuthenticationError, HttpCaller
from moonpool.settings import Settings
from moonpool.store.database.addresses import SqliteAddress
from moonpool.store.database.opening import open_database
from tables import every_row

if TYPE_CHECKING:
    from pathlib import Path

PROXIES = "10.0.0.0/8, 2001:db8:ffff::/48"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.anyio
@pytest.mark.req("E-005", "J-038")
async def test_a_key_says_organisation_principal_scopes_and_profile_and_is_no_person(tmp_path: Path) -> None:
    async with open_database(SqliteAddress(tmp_path / "service.sqlite3")) as database:
        keys = Keys(database)
        await Organisations(database, several=True).create("acme")
        new = await keys.create(
            KeySpec(organisation_id="acme", scopes=frozenset({"execute", "approve"}), profile="direct")
        )
        authenticator = KeyAuthenticator(keys)

        assert await authenticator.authenticate(new.text) == HttpCaller(
            organisation="acme",
            principal=f"key:{new.stored.key_id}",
            scopes=frozenset({"execute", "approve"}),
            profile="direct",
            is_person=False,
        )
        for other in ("eyJhbGciOi.x.y", "", "Sk-local-x"):
            assert await authenticator.authenticate(other) is None
        for wrong in (new.text[:-1], f"{new.text}x", "sk-", "sk-local-" + "a" * 43):
            with pytest.raises(AuthenticationError, match=r"^Invalid or revoked API key\.$"):
                await authenticator.authenticate(wrong)
        await keys.close()


@pytest.mark.claim("C-KEY-3")
@pytest.mark.req("J-039")
def test_after_three_failures_within_a_minute_an_address_waits_and_others_do_not() -> None:
    clock = Clock()
    failed = FailedAuthentications(clock=clock)
    for number in range(FAILURES_MAX):
        assert failed.refused_s("192.0.2.1") == 0
        failed.note("192.0.2.1")
        clock.now += number  # after 0, 1 and 3 s

    assert failed.refused_s("192.0.2.1") == WITHIN_S - 3
    assert failed.refused_s("192.0.2.2") == 0
    clock.now += WITHIN_S - 3 - 0.5
    assert failed.refused_s("192.0.2.1") == pytest.approx(0.5)
    clock.now += 0.5
    assert failed.refused_s("192.0.2.1") == 0


@pytest.mark.req("J-039")
def test_who_goes_on_failing_waits_again() -> None:
    clock = Clock()
    failed = FailedAuthentications(clock=clock)
    for _ in range(FAILURES_MAX):
        failed.note("a")
    clock.now += WITHIN_S
    assert failed.refused_s("a") == 0
    for _ in range(FAILURES_MAX - 1):
        failed.note("a")
        assert failed.refused_s("a") == 0
    failed.note("a")
    assert failed.refused_s("a") == WITHIN_S


def test_the_table_of_failures_is_bounded_and_forgets_what_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures_module, "ADDRESSES_MAX", 10)
    clock = Clock()
    failed = FailedAuthentications(clock=clock)
    for number in range(100):
        failed.note(str(number))
        failed.note("always")
    assert len(failed._failures) == 10
    assert failed.refused_s("always") > 0

    clock.now += WITHIN_S
    for number in range(6):
        failed.note(f"later {number}")
    assert len(failed._failures) == 6


@pytest.mark.claim("C-KEY-3")
@pytest.mark.req("J-039")
@every_row(
    ("peer", "header", "counted"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["203.0.113.9"], "192.0.2.1"),  # nobody's proxy
        ("10.1.2.3", ["203.0.113.9"], "203.0.113.9"),
        ("10.1.2.3", ["1.2.3.4, 203.0.113.9"], "203.0.113.9"),  # what the client itself sent is not looked at
        ("10.1.2.3", ["1.2.3.4", "203.0.113.9"], "203.0.113.9"),
        ("10.1.2.3", ["203.0.113.9, 10.9.9.9"], "203.0.113.9"),  # two proxies of ours
        ("10.1.2.3", ["203.0.113.9:4711"], "203.0.113.9"),
        ("10.1.2.3", ["[2001:db8:1:2:3::4]:4711"], "2001:db8:1:2::/64"),
        ("10.1.2.3", ["10.2.2.2"], "10.2.2.2"),
        ("10.1.2.3", [], "10.1.2.3"),
        ("10.1.2.3", ["203.0.113.9, unknown"], "10.1.2.3"),
        ("10.1.2.3", ["203.0.113.9, <script>, 10.3.3.3"], "10.3.3.3"),
        ("10.1.2.3", [""], "10.1.2.3"),
        ("10.1.2.3", [",".join(["203.0.113.9"] * 5000)], "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", [], "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", [], "2001:db8:1:2::/64"),
        ("2001:db8:ffff::1", ["203.0.113.9"], "203.0.113.9"),
        ("::ffff:10.1.2.3", ["::ffff:203.0.113.9"], "203.0.113.9"),
        ("fe80::1%eth0", [], "fe80::/64"),
        ("", ["203.0.113.9"], "local"),
    ],
)
def test_requests_are_counted_by_who_sent_them(peer: str, header: list[str], counted: str) -> None:
    assert client_address(peer, header, trusted_networks(PROXIES)) == counted


@pytest.mark.claim("C-KEY-3")
@given(st.lists(st.text(max_size=60), max_size=5))
def test_whatever_stands_in_the_header_only_trusted_proxies_are_believed(header: list[str]) -> None:
    trusted = trusted_networks(PROXIES)
    assert client_address("192.0.2.1", header, trusted) == "192.0.2.1"
    assert client_address("10.1.2.3", [*header, "203.0.113.9"], trusted) == "203.0.113.9"
    assert client_address("10.1.2.3", header, trusted)


@every_row(
    ("name", "value", "said"),
    [
        ("MOONPOOL_TRUSTED_PROXIES", "proxy.example.com", "no address or network; write 127.0.0.1"),
        ("MOONPOOL_TRUSTED_PROXIES", ",".join(["10.0.0.1"] * 300), "at most 256"),
        ("MOONPOOL_KEY_REGION", "EU", "lower case"),
        ("MOONPOOL_KEY_REGION", "eu-west", "a-z and 0-9"),
        ("MOONPOOL_KEY_REGION", "é", "a-z and 0-9"),
        ("MOONPOOL_KEY_REGION", "", "a-z and 0-9"),
        ("MOONPOOL_KEY_REGION", "a" * 17, "a-z and 0-9"),
        ("MOONPOOL_DATABASE_CONNECTIONS_MAX", "0", "database_connections_max"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Settings.load({name: value})


@pytest.mark.req("E-020")
def test_settings_do_not_print_what_they_hold() -> None:
    settings = Settings.load({"MOONPOOL_DATABASE_URL": "postgresql://u:s3cret@h/moon"})

    assert repr(settings) == str(settings) == "Settings(database_url)"


@every_row(
    ("client", "headers", "address"),
    [
        (("10.1.2.3", 4711), [(b"x-forwarded-for", b"203.0.113.9")], "203.0.113.9"),
        (("192.0.2.1", 4711), [(b"x-forwarded-for", b"203.0.113.9")], "192.0.2.1"),
        (("10.1.2.3", 4711), [(b"forwarded", b"for=203.0.113.9"), (b"x-real-ip", b"203.0.113.9")], "10.1.2.3"),
        (("10.1.2.3", 4711), [(b"x-forwarded-for", b"\xff\xfe")], "10.1.2.3"),
        (None, [(b"x-forwarded-for", b"203.0.113.9")], "local"),
        (("", 0), [], "local"),
    ],
)
def test_a_request_counts_for_its_connection_or_what_our_proxy_says(
    client: tuple[str, int] | None, headers: list[tuple[bytes, bytes]], address: str
) -> None:
    addresses = ClientAddresses(trusted_networks(PROXIES))
    assert addresses.of({"type": "http", "client": client, "headers": headers}) == address
