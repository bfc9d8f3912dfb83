"""The doctor: attacks real sandboxes of a backend on this machine and reports which attacks were blocked.

If the host lacks a feature, only that is reported, with its remedy. The attacks are data in `moonpool.doctor.probes`;
the claims they test are in THREAT_MODEL.md; `diagnosis` is the report. Only the interface of `moonpool.sandboxes.base`
is used.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from types import MappingProxyType
from typing import TYPE_CHECKING

from moonpool.core.errors import HostUnfitError, MoonpoolError
from moonpool.doctor.diagnosis import DoctorReport, ProbeOutcome, ProbeStatus
from moonpool.doctor.probes.catalogue import CATALOGUE
from moonpool.doctor.probes.prelude import compose
from moonpool.doctor.probes.record import Expected, Finding, HostProbe, UnavailableError
from moonpool.doctor.probes.transcript import Listener
from moonpool.sandboxes.container_sockets import engine_sockets, usable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from moonpool.doctor.probes.record import AnyProbe, Heard, Probe, Stage
    from moonpool.sandboxes.base import Sandbox, SandboxBackend, SandboxSpec
    from moonpool.sandboxes.host_folders import HostFolders

_WORKERS = 4  # sandboxes under attack at the same time
_DISK_BYTES = 16 * 1024**2  # filled completely, in memory; the mechanism is the same at any size
_DISK_INODES = 2048
_PROCESSES = 32


async def run_doctor(
    backend: SandboxBackend,
    spec: SandboxSpec,
    *,
    probes: Sequence[AnyProbe] = CATALOGUE,
    languages: Mapping[str, str] = MappingProxyType({}),
    absent: Mapping[str, str] = MappingProxyType({}),
    advice: Sequence[str] = (),
) -> DoctorReport:
    """Attack sandboxes that `backend` opens for `spec`, with lower disk and process limits, which fill quickly.

    `languages` gives the languages with their versions; `absent` says why one is missing; `advice` is added to the
    report.
    """
    started = time.monotonic()
    missing = tuple(backend.missing_features()) or await _found_missing(backend, spec)
    outcomes = () if missing else await _attack(backend, _lowered(spec), probes, absent)
    return DoctorReport(
        backend=backend.name,
        environment=spec.image.name,
        limits_mode=str(backend.limits_mode),
        uid=os.geteuid(),
        languages={**languages, **absent},
        missing=missing,
        advice=(*advice, *_unavailable(outcomes, probes, absent), *await asyncio.to_thread(_advice)),
        outcomes=outcomes,
        attacks_left_out=len(set(CATALOGUE) - set(probes)),
        duration_ms=_since(started),
    )


async def _found_missing(backend: SandboxBackend, spec: SandboxSpec) -> tuple[str, ...]:
    """Missing features that only opening a sandbox reveals. Other failures are left to the first probe."""
    try:
        sandbox = await backend.open_sandbox(spec)
    except HostUnfitError as error:
        return error.missing
    except MoonpoolError:
        return ()
    await sandbox.close()
    return ()


def _unavailable(
    outcomes: Sequence[ProbeOutcome], probes: Sequence[AnyProbe], absent: Mapping[str, str]
) -> tuple[str, ...]:
    """Why scenes were not played, but for those in a language that is absent: that is reported with the languages."""
    told = {probe.probe_id for probe in probes if probe.language in absent}
    return tuple(one.detail for one in outcomes if one.status is ProbeStatus.ABSENT and one.probe_id not in told)


def _advice() -> tuple[str, ...]:
    return tuple(
        f"this account may use {path}, and code that takes over this process is then root on the host: give Moonpool "
        "an account of its own"
        for path in usable(engine_sockets(os.environ))
    )


def _lowered(spec: SandboxSpec) -> SandboxSpec:
    limits = dataclasses.replace(
        spec.limits,
        disk_bytes_max=min(spec.limits.disk_bytes_max, _DISK_BYTES),
        disk_inodes_max=min(spec.limits.disk_inodes_max, _DISK_INODES),
        process_count_max=min(spec.limits.process_count_max, _PROCESSES),
    )
    return dataclasses.replace(spec, limits=limits)


async def _attack(
    backend: SandboxBackend, spec: SandboxSpec, probes: Sequence[AnyProbe], absent: Mapping[str, str]
) -> tuple[ProbeOutcome, ...]:
    first = await _Attacker(backend, spec).attack(_OPENING)
    if first.status is not ProbeStatus.PASSED:
        return (first,)
    queue = list(enumerate(probes))[::-1]
    outcomes: dict[int, ProbeOutcome] = {}

    async def work() -> None:
        attacker = _Attacker(backend, spec)
        try:
            while queue:
                index, probe = queue.pop()
                reason = absent.get(probe.language)
                outcomes[index] = await attacker.attack(probe) if reason is None else _not_played(probe, reason)
        finally:
            await attacker.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(min(_WORKERS, len(queue)) or 1):
            group.create_task(work())
    return (first, *(outcomes[index] for index in sorted(outcomes)))


async def _first_sandbox(stage: Stage) -> Finding:
    sandbox = await stage.open_sandbox()
    await sandbox.close()
    return Finding(blocked=True, detail="opened and closed")


_OPENING = HostProbe(probe_id="open", claim="C-ID-1", title="open a sandbox", play=_first_sandbox)


class _Attacker:
    """Runs probes one after another, with a shared sandbox for those that do not change it."""

    def __init__(self, backend: SandboxBackend, spec: SandboxSpec) -> None:
        self._backend, self._spec = backend, spec
        self._shared: Sandbox | None = None
        self._opened: list[Sandbox] = []

    async def attack(self, probe: AnyProbe) -> ProbeOutcome:
        outcome = await _judged(probe, lambda: self._play(probe))
        if outcome.status is not ProbeStatus.PASSED and self._shared is not None:
            self._opened.append(self._shared)  # its state is unknown
            self._shared = None
        await self._close_opened()
        return outcome

    async def _play(self, probe: AnyProbe) -> Finding:
        if isinstance(probe, HostProbe):
            return await probe.play(self)
        sandbox = await self.open_sandbox() if probe.fresh else await self._shared_sandbox()
        heard = await self.run(sandbox, probe.program, language=probe.language)
        return _finding_of(probe, heard)

    async def open_sandbox(self, *, network: bool = False, folders: HostFolders | None = None) -> Sandbox:
        """Open a separate sandbox for the current probe."""
        spec = self._spec.with_network() if network else self._spec
        sandbox = await self._backend.open_sandbox(dataclasses.replace(spec, folders=folders))
        self._opened.append(sandbox)
        return sandbox

    async def run(self, sandbox: Sandbox, program: str, *, language: str = "python") -> Heard:
        """Run an attack program to its end."""
        return await Listener(language).hear(sandbox, compose(program, self._spec, language))

    async def _shared_sandbox(self) -> Sandbox:
        if self._shared is None:
            self._shared = await self._backend.open_sandbox(self._spec)
        return self._shared

    async def _close_opened(self) -> None:
        while self._opened:
            await self._opened.pop().close()

    async def close(self) -> None:
        await self._close_opened()
        if self._shared is not None:
            await self._shared.close()


def _finding_of(probe: Probe, heard: Heard) -> Finding:
    if probe.expected is Expected.DISCARDED:
        violation = heard.outcome.violation if heard.outcome else None
        return Finding(blocked=violation is not None, detail=violation or heard.error or "the sandbox lives on")
    if heard.finding is not None:
        return heard.finding
    raise _NotJudgedError(heard.error or f"the sandbox ended: {heard.outcome}")


def _not_played(probe: AnyProbe, reason: str) -> ProbeOutcome:
    return ProbeOutcome(
        probe_id=probe.probe_id,
        claim=probe.claim,
        title=probe.title,
        status=ProbeStatus.ABSENT,
        detail=_printable(reason),
        duration_ms=0,
    )


class _NotJudgedError(Exception):
    """The attack could not be carried out as planned."""


async def _judged(probe: AnyProbe, play: Callable[[], Awaitable[Finding]]) -> ProbeOutcome:
    """Run and classify a probe. Any error counts against the sandbox."""
    started = time.monotonic()
    try:
        async with asyncio.timeout(probe.time_limit_s):
            finding = await play()
        status = ProbeStatus.PASSED if finding.blocked else ProbeStatus.FAILED
        detail = finding.detail
    except UnavailableError as error:
        status, detail = ProbeStatus.ABSENT, str(error)
    except TimeoutError:
        status, detail = ProbeStatus.ERROR, f"not over after {probe.time_limit_s:g} s"
    except Exception as error:  # noqa: BLE001  fail closed: a broken probe proves nothing
        status, detail = ProbeStatus.ERROR, f"{type(error).__name__}: {error}"
    return ProbeOutcome(
        probe_id=probe.probe_id,
        claim=probe.claim,
        title=probe.title,
        status=status,
        detail=_printable(detail),
        duration_ms=_since(started),
    )


def _printable(text: str) -> str:
    """SECURITY: a detail may hold text of the guest, which must not control a terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)[:2000]


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
