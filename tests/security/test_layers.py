"""Takes layers away, one at a time, and sees that the doctor notices: a probe that always passes shows nothing.

The weak walls are made here, by changing what the backends are told to build; the product has no such switch.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import pytest

from moonpool.runtime.doctor import run_doctor
from moonpool.runtime.probes.catalogue import CATALOGUE
from moonpool.sandboxes import bubblewrap, link, seccomp, zygote
from security.backends import BACKENDS, opened

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.anyio

_ALLOW_ALL = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF_0000)
_LIMITS = '        ("limits", lambda: apply_limits(spec["limits"])),\n'


@pytest.fixture(params=sorted(BACKENDS))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


async def _noticed(name: str, probe_ids: Sequence[str], guest_changes: dict[str, str] | None = None) -> set[str]:
    """Those of `probe_ids` that report a hole."""
    probes = [replace(probe, time_limit_s=3.0) for probe in CATALOGUE if probe.probe_id in probe_ids]
    assert len(probes) == len(probe_ids), "a probe of that name is not in the catalogue"
    async with opened(name, guest_changes) as (backend, spec):
        with anyio.fail_after(60):
            report = await run_doctor(backend, spec, probes=probes)
    assert not report.ok
    return {outcome.probe_id for outcome in report.outcomes if outcome.status == "failed"}


def _change_walls(monkeypatch: pytest.MonkeyPatch, before_seal: list[str], drop: tuple[str, ...] = ()) -> None:
    """Add arguments to both walls before they are sealed, and leave out the words `drop` where they stand together."""
    for module, function in ((zygote, "zygote_wall"), (bubblewrap, "execution_wall")):
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


async def test_doctor_notices_a_filter_that_allows_everything(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "sandbox_filter", lambda: _ALLOW_ALL)
    monkeypatch.setattr(seccomp, "wall_filter", lambda: _ALLOW_ALL)
    stopped_by_the_filter = {
        "net-families", "net-sysv", "sys-keys", "sys-io-uring", "sys-int80", "sys-memory-policy", "proc-trace",
        "lim-unaccounted-memory", "id-core-helper", "id-unshare", "lim-socket-buffers",
    }  # fmt: skip
    assert await _noticed(name, sorted(stopped_by_the_filter)) == stopped_by_the_filter


async def test_doctor_notices_a_filter_without_the_socket_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = seccomp._argument_checks
    monkeypatch.setattr(
        seccomp, "_argument_checks", lambda **options: [c for c in checks(**options) if c[0] != "socket"]
    )
    assert await _noticed(name, ["net-families"]) == {"net-families"}


async def test_doctor_notices_a_host_file_in_the_wall(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _change_walls(monkeypatch, ["--dir", "/srv", "--ro-bind", "/proc/version", "/etc/shadow"])
    probes = ["fs-host-files", "fs-root-listing"]
    assert await _noticed(name, probes) == set(probes)


async def test_doctor_notices_a_host_file_in_place_of_ours(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _change_walls(monkeypatch, ["--ro-bind", "/etc/passwd", "/etc/passwd"])
    assert await _noticed(name, ["fs-accounts"]) == {"fs-accounts"}


async def test_doctor_notices_a_root_that_can_be_written(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _change_walls(monkeypatch, [], drop=("--remount-ro", "/"))
    probes = ["fs-write", "fs-mount-options"]
    assert await _noticed(name, probes) == set(probes)


async def test_doctor_notices_a_device_of_the_host(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _change_walls(monkeypatch, ["--dev-bind", "/dev/zero", "/dev/kvm"])
    assert await _noticed(name, ["fs-devices"]) == {"fs-devices"}


async def test_doctor_notices_a_variable_of_the_host(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _change_walls(monkeypatch, ["--setenv", "API_TOKEN", "x"])
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
        pytest.param({'("max_inotify_instances", 16), ': ""}, ["host-starve-inotify"], id="inotify of the uid"),
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
    assert await _noticed("zygote", ["host-kill-group"], changes) == {"host-kill-group"}


async def test_doctor_notices_slots_of_other_sandboxes() -> None:
    changes = {
        '    linux.mount("tmpfs", SLOTS, "tmpfs", _FLAGS | linux.MS_RDONLY, "size=4k,nr_inodes=2,mode=555")\n': ""
    }
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
