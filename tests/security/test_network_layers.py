"""What still holds in sandboxes with a network when one of their layers is gone."""

from __future__ import annotations

import pytest

from security.backends import BACKENDS
from security.weakening import LAYERS, Weakening, got_through, lenient, probes_named

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PROBES = ["way-out-sockets", "way-out-around", "way-out-through"]
FILTERS = ("network_sandbox_filter", "network_outer_filter")
HELD: dict[str, tuple[Weakening, set[str]]] = {
    "inner filter": (Weakening(title="inner filter", filters=FILTERS[:1]), set()),
    "outer filter": (Weakening(title="outer filter", filters=FILTERS[1:]), set()),
    "both filters": (Weakening(title="both filters", filters=FILTERS), {"way-out-sockets"}),
    "capability drop": (next(one for one in LAYERS if one.title == "capability drop"), set()),
}


@pytest.mark.parametrize("name", sorted(BACKENDS))
@pytest.mark.parametrize("gone", HELD)
async def test_what_gets_through_without_a_layer(name: str, gone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, expected = HELD[gone]
    layer.apply(monkeypatch)
    assert set(await got_through(name, [lenient(one) for one in probes_named(PROBES)], layer.guest_changes)) == expected


@pytest.mark.parametrize("name", sorted(BACKENDS))
async def test_without_its_network_namespaces_none_starts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may not change what is not its own network, so it never listens in the host's."""
    layer = next(one for one in LAYERS if one.title == "network namespaces")
    layer.apply(monkeypatch)
    with pytest.raises(AssertionError, match="SandboxStartError"):
        await got_through(name, probes_named(PROBES), layer.guest_changes)
