"""A machine with real routes, real names and a real resolver, beside an internet that the test makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apps import fresh_data
from moonpool.network.connections import Outcome
from moonpool.store.journal_reading import read_rows
from moonpool.store.paths import journal_path
from network.fake_internet import NEEDS_NAMESPACES, OWN_PROGRAM, PAGE, printed_by
from run_folder import run_folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
@NEEDS_NAMESPACES
def test_code_reaches_the_internet_that_is_allowed_and_nothing_inside(tmp_path: Path) -> None:
    data = fresh_data(run_folder() / tmp_path.name)
    answer = printed_by(OWN_PROGRAM, tmp_path, data)
    assert answer["error"] == ""
    found = {url.removeprefix("http://"): text for url, text in answer["data"].items()}
    assert found.pop("www.example.com/hello") == PAGE
    inside = [found.pop(f"{name}.example.com/") for name in ("private", "loopback", "metadata", "own", "nat")]
    assert [text for text in inside if "not on the public internet" not in text] == []
    assert [text for text in found.values() if "not among the domains" not in text] == []
    rows = [row.to_json() for row in read_rows(journal_path(data), tail=100) if row.kind == "connection"]
    addresses = {row["host"]: row["address"] for row in rows if row["outcome"] == Outcome.ADDRESS_REFUSED}
    assert addresses == {
        "private.example.com": "10.9.9.9",
        "loopback.example.com": "127.0.0.1",
        "metadata.example.com": "169.254.169.254",
        "own.example.com": "93.184.215.1",
        "nat.example.com": "64:ff9b::a09:909",
    }
    assert sorted(row["address"] for row in rows if row["outcome"] == Outcome.DONE) == ["93.184.215.14"] * 3
