"""What an application lets its sessions reach, for every face. How it is enforced: `tests/network`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import moonpool

if TYPE_CHECKING:
    from sdk.faces import Face

pytestmark = pytest.mark.anyio

ASK = """
import urllib.error, urllib.request
try:
    urllib.request.urlopen("http://evil.example/", timeout=30)
except urllib.error.URLError as error:
    said = str(error.reason)
said
"""


async def test_a_session_reaches_what_the_application_allows_also_after_a_reset(face: Face) -> None:
    async with face.session(network=moonpool.Network(allow=["a.example", "*.b.example:8443"])) as s:
        assert s.network.allowed == ("a.example", "*.b.example:8443")
        refused = (await s.run(ASK)).data
        assert "not among the domains" in refused
        assert s.network.refused == (refused.partition("Moonpool: ")[2],)
        await s.network.allow("c.example")
        await s.network.deny("A.example.")
        with pytest.raises(moonpool.NetworkRuleError):
            await s.network.allow("127.0.0.1")
        await s.reset()
        assert s.network.allowed == ("*.b.example:8443", "c.example")
        assert "not among the domains" in (await s.run(ASK)).data


async def test_what_cannot_be_allowed_is_refused_before_anything_is_opened(face: Face) -> None:
    for wrong, error in (
        (["*"], moonpool.NetworkRuleError),
        ("a.example", moonpool.InputError),
        (True, moonpool.InputError),
        ([7], moonpool.InputError),
    ):
        with pytest.raises(error):
            async with face.session(network=wrong):
                pass
    async with face.session() as s:
        assert s.network.allowed == s.network.refused == ()
        with pytest.raises(moonpool.InputError, match="has no network"):
            await s.network.allow("a.example")
