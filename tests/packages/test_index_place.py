"""Which domains a build sandbox may reach, and where these may lead."""

from __future__ import annotations

import pytest

from moonpool.bootstrap import packages
from moonpool.bootstrap.packages import _IndexPlace
from moonpool.settings import Settings


@pytest.fixture(autouse=True)
def nothing_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "read_pip_settings", dict[str, str])
    monkeypatch.setattr(packages, "public_index", lambda: ("https://index.example.com/simple", "files.example.com"))


@pytest.mark.parametrize(
    ("settings", "environ", "private"),
    [
        ({}, {}, {"index.example.com": False, "files.example.com": False}),
        (
            {"package_hosts": "files.example.org"},
            {"UV_INDEX": "http://inner/simple"},
            {"index.example.com": False, "files.example.com": False, "inner": True, "files.example.org": True},
        ),
        ({"package_index": "https://index.example.com/simple"}, {}, {"index.example.com": True}),
        ({}, {"UV_DEFAULT_INDEX": "https://index.example.com/simple"}, {"index.example.com": True}),
    ],
)
def test_only_what_somebody_configured_may_be_on_a_private_address(
    settings: dict[str, str], environ: dict[str, str], private: dict[str, bool]
) -> None:
    place = _IndexPlace.of(Settings.load({}, **settings), environ)
    assert {rule.pattern: rule.allow_private for rule in place.domains} == private
