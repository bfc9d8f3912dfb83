"""Tokens of signed URLs as values, ranges, and names that browsers save under."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moonpool.features.signed_urls.model import TOKEN_CHARS_MAX, UrlGrant, UrlRefusedError, granted, sign
from moonpool.server.http.storage.blobs import disposition
from moonpool.server.http.storage.ranges import ByteRange, RangeError, wanted_range
from tables import every_row

KEY = b"k" * 32
GRANT = UrlGrant(
    method="PUT", organisation="acme", kind="thread", owner="", name="t1", path="data/in.csv", size=5,
    content_type="text/csv", expires_at=1000, principal="key:1",
)  # fmt: skip
ETAG = '"abc"'


def refused(token: str, *, key: bytes = KEY, method: str = "PUT", now: float = 999.0) -> bool:
    with pytest.raises(UrlRefusedError) as raised:
        granted(token, key, method=method, now=now)
    return str(raised.value) == str(UrlRefusedError())


def test_a_token_gives_back_what_was_signed() -> None:
    assert granted(sign(GRANT, KEY), KEY, method="PUT", now=999) == GRANT


def test_it_ends_at_its_time_and_is_good_for_one_method_and_one_key() -> None:
    token = sign(GRANT, KEY)
    assert refused(token, now=1000)
    assert refused(token, method="GET")
    assert refused(token, key=b"x" * 32)


@pytest.mark.req("J-042")
def test_every_changed_character_and_every_other_spelling_is_refused() -> None:
    token = sign(GRANT, KEY)
    for place, char in enumerate(token):
        assert refused(token[:place] + ("A" if char != "A" else "B") + token[place + 1 :])
        assert refused(token[:place])
    for other in ("=", ".", " ", "\n", "A", "%00", "\u0131"):
        assert refused(token + other)
        assert refused(other + token)


@pytest.mark.req("J-042")
def test_every_member_is_signed() -> None:
    text, _, mac = sign(GRANT, KEY).partition(".")
    members = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    changes = ["GET", "other", "volume", "user:x", "t2", "data/other", 6, "text/html", 10**9, "key:2"]
    assert len(changes) == len(members)
    for place, change in enumerate(changes):
        changed = [*members[:place], change, *members[place + 1 :]]
        forged = base64.urlsafe_b64encode(json.dumps(changed, separators=(",", ":")).encode()).rstrip(b"=").decode()
        assert refused(f"{forged}.{mac}")


@given(st.text(max_size=300))
def test_whatever_is_sent_for_a_token_is_refused(token: str) -> None:
    assert refused(token)


def test_the_longest_grant_has_a_token_that_is_taken() -> None:
    longest = UrlGrant(
        method="PUT", organisation="o" * 64, kind="thread", owner="user:" + "u" * 250, name="t" * 128,
        path="\u20ac" * 1365, size=10 * 1024**3, content_type="c" * 200, expires_at=10**10, principal="p" * 255,
    )  # fmt: skip
    token = sign(longest, KEY)
    assert len(token) < TOKEN_CHARS_MAX
    assert granted(token, KEY, method="PUT", now=0) == longest


RANGES = [
    (None, None, None), ("bytes=0-0", None, (0, 1)), ("bytes=2-4", None, (2, 5)), ("bytes=5-", None, (5, 10)),
    ("bytes=0-99", None, (0, 10)), ("bytes=-3", None, (7, 10)), ("bytes=-99", None, (0, 10)),
    ("BYTES=1-1", None, (1, 2)), ("bytes=3-2", None, None), ("bytes=-", None, None), ("bytes=0-1,3-4", None, None),
    ("lines=0-1", None, None), ("bytes=a-b", None, None), ("bytes=1-2", ETAG, (1, 3)), ("bytes=1-2", '"old"', None),
    ("bytes=1-2", "Wed, 21 Oct 2015 07:28:00 GMT", None), ("bytes=\u0661-2", None, None),
]  # fmt: skip


@every_row(("header", "if_range", "wanted"), RANGES)
def test_ranges(header: str | None, if_range: str | None, wanted: tuple[int, int] | None) -> None:
    found = wanted_range(header, if_range, size=10, etag=ETAG)
    assert found == (None if wanted is None else ByteRange(*wanted))


@every_row(("header", "size"), [("bytes=10-", 10), ("bytes=99-100", 10), ("bytes=-0", 10), ("bytes=0-0", 0)])
def test_ranges_behind_the_end(header: str, size: int) -> None:
    with pytest.raises(RangeError):
        wanted_range(header, None, size=size, etag=ETAG)


def test_a_file_is_saved_under_its_own_name_whatever_is_in_it() -> None:
    assert disposition("a/chart.png") == "attachment; filename=\"chart.png\"; filename*=UTF-8''chart.png"
    odd = disposition('x"\r\nset-cookie: a=b; \u20ac')
    assert odd.isascii()
    assert odd.isprintable()
    assert odd.count('"') == 2
