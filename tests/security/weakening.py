"""Walls with a layer taken away, and the probes that then get through. Test-only: the product has no such switch."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio

from moonpool.doctor.probes.catalogue import CATALOGUE
from moonpool.doctor.probes.record import Probe
from moonpool.doctor.service import ProbeStatus, run_doctor
from moonpool.sandboxes import bubblewrap, seccomp, zygote
from security.backends import opened

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from moonpool.doctor.probes.record import AnyProbe

ALLOW_ALL = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF_0000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weakening:
    """What is taken away."""

    title: str
    filters: tuple[str, ...] = ()  # functions of `seccomp` whose filter allows everything instead
    guest_changes: dict[str, str] = field(default_factory=dict[str, str])
    wall_without: tuple[str, ...] = ()

    def apply(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in self.filters:
            monkeypatch.setattr(seccomp, name, lambda **_: ALLOW_ALL)
        if self.wall_without:
            change_outer_sandboxes(monkeypatch, [], drop=self.wall_without)


LAYERS = (
    Weakening(title="inner filter", filters=("sandbox_filter",)),
    Weakening(title="outer filter", filters=("outer_sandbox_filter",)),
    Weakening(title="both filters", filters=("sandbox_filter", "outer_sandbox_filter")),
    Weakening(
        title="network namespaces",
        guest_changes={" | CLONE_NEWPID | CLONE_NEWNET\n": " | CLONE_NEWPID\n"},
        wall_without=("--unshare-net",),
    ),
    Weakening(title="capability drop", guest_changes={'        ("capabilities", _drop),\n': ""}),
    Weakening(title="namespace budget", guest_changes={'("max_user_namespaces", 0), ': ""}),
)


def change_outer_sandboxes(monkeypatch: pytest.MonkeyPatch, before_seal: list[str], drop: tuple[str, ...] = ()) -> None:
    """Add arguments to both walls before they are sealed, and leave out the words `drop` where they stand together."""
    for module, function in ((zygote, "zygote_outer_sandbox"), (bubblewrap, "execution_outer_sandbox")):
        plan = getattr(module, function)

        def changed(*arguments: object, _plan: object = plan, **options: object) -> list[str]:
            words: list[str] = _plan(*arguments, **options)  # type: ignore[operator]
            at = words.index("--remount-ro", words.index("--chdir"))
            words[at:at] = before_seal
            for start in range(len(words) - len(drop), 0, -1) if drop else ():
                if tuple(words[start : start + len(drop)]) == drop:
                    del words[start : start + len(drop)]
            return words

        monkeypatch.setattr(module, function, changed)


def probes_named(probe_ids: Iterable[str]) -> list[AnyProbe]:
    wanted = set(probe_ids)
    probes = [probe for probe in CATALOGUE if probe.probe_id in wanted]
    assert {probe.probe_id for probe in probes} == wanted, "a probe of that name is not in the catalogue"
    return probes


def lenient(probe: AnyProbe) -> AnyProbe:
    """Counts only what gets through: where one layer is gone, the other may refuse in other words."""
    if not isinstance(probe, Probe):
        return probe
    return replace(probe, program=f"STRICT = False\n{probe.program}")


async def got_through(name: str, probes: list[AnyProbe], guest_changes: dict[str, str] | None = None) -> dict[str, str]:
    """Probes that report a hole, with what they say. One that cannot be judged fails the test."""
    async with opened(name, guest_changes) as (backend, spec):
        with anyio.fail_after(90):
            report = await run_doctor(backend, spec, probes=probes)
    unjudged = [outcome for outcome in report.outcomes if outcome.status is ProbeStatus.ERROR]
    assert not unjudged, unjudged
    return {outcome.probe_id: outcome.detail for outcome in report.outcomes if outcome.status is ProbeStatus.FAILED}
