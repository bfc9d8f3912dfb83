"""Takes layers away, one at a time, and sees what still holds, and that the doctor notices what does not.

A probe that always passes shows nothing; a second layer that nobody ever stood on alone may not be there.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.doctor.probes.catalogue import CATALOGUE
from moonpool.doctor.service import run_doctor
from moonpool.sandboxes import link, seccomp
from security.backends import BACKENDS, opened
from security.claims import read_layers
from security.weakening import ALLOW_ALL, LAYERS, Weakening, change_outer_sandboxes, got_through, lenient, probes_named

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

_LIMITS = '        ("limits", lambda: apply_limits(spec["limits"])),\n'
_KINDS = ("fs", "id", "proc", "sys", "net", "lim")
_NOT_ALONE = {"fs-write", "net-socket-files"}  # long walks through files that no layer below changes
JUDGED = [
    *(p.probe_id for p in CATALOGUE if p.probe_id.split("-")[0] in _KINDS and p.probe_id not in _NOT_ALONE),
    *("host-listeners", "host-files-of-others", "host-kill-group", "host-kernel-uid"),
]
"""Attacks on the walls themselves. The channel, and what a sandbox finds lying about, have no second layer."""

OFFERED_BY_SOME = {
    *("net-vsock", "net-interfaces", "sys-int80", "sys-io-uring", "sys-keys", "sys-modules"),
    *("sys-terminal-injection", "sys-userfaultfd"),
}
"""What not every Linux kernel or machine has: without the layers it may still not get through."""

BOTH_GONE = {
    "filters and the budget": (
        Weakening(
            title="filters, namespace budget",
            filters=("sandbox_filter", "outer_sandbox_filter"),
            guest_changes={'("max_user_namespaces", 0), ': ""},
        ),
        {"id-unshare", "id-userns-second-layer"},
    ),
    "filters and the inotify budget": (
        Weakening(
            title="filters, inotify budget",
            filters=("sandbox_filter", "outer_sandbox_filter"),
            guest_changes={'("max_inotify_instances", 0), ': ""},
        ),
        {"lim-inotify"},
    ),
    "filters and the network namespaces": (
        Weakening(
            title="filters, network namespaces",
            filters=("sandbox_filter", "outer_sandbox_filter"),
            guest_changes={" | CLONE_NEWPID | CLONE_NEWNET\n": " | CLONE_NEWPID\n"},
            wall_without=("--unshare-net",),
        ),
        {"host-listeners", "net-families", "net-interfaces", "net-vsock"},
    ),
}
"""Two layers gone, and what only the two together stop."""


@pytest.fixture(params=sorted(BACKENDS))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


async def _noticed(name: str, probe_ids: Sequence[str], guest_changes: dict[str, str] | None = None) -> set[str]:
    """Those of `probe_ids` that report a hole."""
    probes = [replace(probe, time_limit_s=20.0) for probe in probes_named(probe_ids)]
    return set(await got_through(name, probes, guest_changes))


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.title)
async def test_what_gets_through_without_a_layer_is_what_the_table_says(
    name: str, layer: Weakening, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer.apply(monkeypatch)
    found = await got_through(name, [lenient(probe) for probe in probes_named(JUDGED)], layer.guest_changes)
    expected = read_layers(name)[layer.title]
    assert set(found) <= expected, found
    assert expected - set(found) <= OFFERED_BY_SOME


@pytest.mark.parametrize("gone", BOTH_GONE)
async def test_what_two_layers_stop_gets_through_without_both(
    name: str, gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers, expected = BOTH_GONE[gone]
    layers.apply(monkeypatch)
    found = await got_through(name, [lenient(probe) for probe in probes_named(expected)], layers.guest_changes)
    assert set(found) <= expected, found
    assert expected - set(found) <= OFFERED_BY_SOME


def test_what_only_a_filter_stops_is_filtered_twice() -> None:
    """Neither filter is alone: what gets through without both is stopped by each."""
    for name in BACKENDS:
        table = read_layers(name)
        assert {"net-vsock", "sys-keys", "sys-io-uring", "sys-int80"} <= table["both filters"]
        assert table["outer filter"] == set()
        assert table["inner filter"] == {"id-core-helper"}  # the guest itself sets that limit, inside the wall


async def test_doctor_notices_a_filter_that_allows_everything(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "sandbox_filter", lambda **_: ALLOW_ALL)
    monkeypatch.setattr(seccomp, "outer_sandbox_filter", lambda **_: ALLOW_ALL)
    stopped_by_the_filter = {
        "net-families", "net-sysv", "sys-keys", "sys-io-uring", "sys-int80", "sys-memory-policy", "proc-trace",
        "lim-unaccounted-memory", "id-core-helper", "id-unshare", "lim-socket-buffers", "sys-shared-budgets",
        "lim-kernel-memory",
    }  # fmt: skip
    assert await _noticed(name, sorted(stopped_by_the_filter)) == stopped_by_the_filter


async def test_doctor_notices_a_filter_without_the_socket_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = seccomp._argument_checks
    monkeypatch.setattr(
        seccomp, "_argument_checks", lambda **options: [c for c in checks(**options) if c[0] != "socket"]
    )
    assert await _noticed(name, ["net-families"]) == {"net-families"}


async def test_doctor_notices_a_host_file_in_the_outer_sandbox(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change_outer_sandboxes(monkeypatch, ["--dir", "/srv", "--ro-bind", "/proc/version", "/etc/shadow"])
    probes = ["fs-host-files", "fs-root-listing"]
    assert await _noticed(name, probes) == set(probes)


async def test_doctor_notices_a_host_file_in_place_of_ours(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change_outer_sandboxes(monkeypatch, ["--ro-bind", "/etc/passwd", "/etc/passwd"])
    assert await _noticed(name, ["fs-accounts"]) == {"fs-accounts"}


async def test_doctor_notices_a_root_that_can_be_written(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change_outer_sandboxes(monkeypatch, [], drop=("--remount-ro", "/"))
    # Where root gives each sandbox a uid of its own, a zygote's root folder belongs to another one.
    writable = set() if name == "zygote" and os.geteuid() == 0 else {"fs-write"}
    assert await _noticed(name, ["fs-write", "fs-mount-options"]) == {"fs-mount-options"} | writable


async def test_doctor_notices_a_device_of_the_host(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change_outer_sandboxes(monkeypatch, ["--dev-bind", "/dev/zero", "/dev/kvm"])
    assert await _noticed(name, ["fs-devices"]) == {"fs-devices"}


async def test_doctor_notices_a_variable_of_the_host(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change_outer_sandboxes(monkeypatch, ["--setenv", "API_TOKEN", "x"])
    assert await _noticed(name, ["res-environment"]) == {"res-environment"}


@pytest.mark.parametrize(
    ("changes", "probes"),
    [
        pytest.param({_LIMITS: ""}, ["proc-raise-limits", "proc-fork-bomb", "lim-address-space"], id="no limits"),
        pytest.param({'        ("capabilities", _drop),\n': ""}, ["id-capabilities"], id="capabilities kept"),
        pytest.param({', "subset=pid"': ""}, ["fs-kernel-interfaces"], id="all of proc"),
        pytest.param(
            {' | linux.MS_RDONLY, "subset=pid"': ""},
            ["fs-kernel-interfaces", "fs-proc-sys"],
            id="all of proc, to write",
        ),
        pytest.param(
            {"linux.MS_NOEXEC | linux.MS_RDONLY": "linux.MS_NOEXEC"}, ["proc-own-settings"], id="proc to write"
        ),
        pytest.param({",max=32": ""}, ["lim-descriptors"], id="terminals without end"),
        pytest.param({",nr_inodes={inodes}": ""}, ["lim-inodes"], id="files without end"),
        pytest.param({"size={size},": ""}, ["lim-disk"], id="disk without end"),
    ],
)
async def test_doctor_notices_a_confinement_step_that_is_missing(
    name: str, changes: dict[str, str], probes: list[str]
) -> None:
    assert await _noticed(name, probes, changes) == set(probes)


async def test_doctor_notices_sandboxes_in_the_group_of_their_zygote() -> None:
    changes = {'        ("group", _lead_group),\n': ""}
    assert await _noticed("zygote", ["proc-own-group"], changes) == {"proc-own-group"}


async def test_doctor_notices_that_neighbours_can_be_killed() -> None:
    changes = {'        ("group", _lead_group),\n': ""}
    stopped_by_uids = os.geteuid() == 0  # a sandbox with a uid of its own may signal no other
    assert await _noticed("zygote", ["host-kill-group"], changes) == (set() if stopped_by_uids else {"host-kill-group"})


async def test_doctor_notices_slots_of_other_sandboxes() -> None:
    cover = (
        "    linux.mount(_QUOTA, SLOTS, None, linux.MS_BIND)  # which is empty again, and read-only as the whole root\n"
    )
    changes = {cover: ""}
    assert await _noticed("zygote", ["res-slots"], changes) == {"res-slots"}


async def test_doctor_counts_a_probe_that_cannot_be_judged_as_not_held(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link.GuestLink, "_violate", lambda _self, _reason: None)
    probes = [replace(probe, time_limit_s=0.5) for probe in CATALOGUE if probe.probe_id == "chan-junk"]
    async with opened(name) as (backend, spec):
        with anyio.fail_after(30):
            report = await run_doctor(backend, spec, probes=probes)
    assert (report.ok, report.broken_claims) == (False, ("C-CHAN-1",))
