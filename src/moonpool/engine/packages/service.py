"""Packages of one session: installed, put on record, published in its sandbox. The use case behind every face.

INVARIANT: nothing is published that is not on record; a failed installation changes nothing that code sees.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Final, Protocol

from moonpool.core.audit_records import PackagesRecord, time_stamp
from moonpool.core.errors import MoonpoolError
from moonpool.engine.packages.model import PackageError, SessionPackages
from moonpool.engine.packages.specifiers import parse_requirements
from moonpool.sandboxes.shielding import finish

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.core.audit import Journal
    from moonpool.engine.network import GuestNetwork
    from moonpool.engine.packages.installer import PackageInstaller
    from moonpool.engine.packages.model import InstalledPackages
    from moonpool.network.rules import NetworkRules
    from moonpool.sandboxes.base import Sandbox


_CUT_OFF: Final = "cancelled"


@dataclass(eq=False)
class KernelPackages:
    """What is installed for one kernel; branches share it, and it outlives sandboxes."""

    installed: SessionPackages = field(default_factory=SessionPackages)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _showing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def are_shown(self, sandbox: Sandbox) -> bool:
        """Whether `sandbox` shows them already."""
        return sandbox.shows_packages(self.installed.digest)

    async def show(self, sandbox: Sandbox) -> None:
        """Publish them in `sandbox`. Raises PackageError.

        INVARIANT: one after another, and what is installed at that moment: nothing is replaced by what was before.
        """
        try:
            async with self._showing:
                await finish(self._publish(sandbox))
        except OSError as error:
            if not sandbox.has_ended:  # its slot is removed, too
                why = (error.strerror or "it failed").lower()
                raise PackageError(f"the packages of this session cannot be shown: {why}; install them again") from None

    async def _publish(self, sandbox: Sandbox) -> None:
        installed = self.installed
        if not sandbox.shows_packages(installed.digest):
            await asyncio.to_thread(sandbox.publish_packages, installed.folders, installed.digest)


class PackageKernel(Protocol):
    """What a kernel offers here (`moonpool.engine.branches.SharedKernel`)."""

    sandbox: Sandbox | None
    packages: KernelPackages


@dataclass(frozen=True, kw_only=True)
class SessionInstalls:
    """Installs packages into one session."""

    kernel: PackageKernel
    installer: PackageInstaller
    open_network: Callable[[NetworkRules], GuestNetwork]
    journal: Journal
    principal: str
    session_id: str

    async def install(self, text: str) -> InstalledPackages:
        """See `moonpool.engine.sessions.Session.install`."""
        packages = self.kernel.packages
        async with packages.turn:
            try:
                after, done = await self.installer.install(
                    text,
                    packages.installed,
                    self.open_network,
                    principal=self.principal,
                    has_sandbox=self.kernel.sandbox is not None and not self.kernel.sandbox.has_ended,
                )
            except BaseException as error:
                await finish(self._record(text, None, error.code if isinstance(error, MoonpoolError) else _CUT_OFF))
                raise
            await finish(self._publish(text, after, done))  # what is on record as installed is installed
            return done

    async def _publish(self, text: str, after: SessionPackages, done: InstalledPackages) -> None:
        await self._record(text, done, "")
        packages, sandbox = self.kernel.packages, self.kernel.sandbox
        before, packages.installed = packages.installed, after
        if sandbox is not None and not sandbox.has_ended:
            try:
                await packages.show(sandbox)
            except PackageError as error:
                packages.installed = before
                await self._record(text, None, error.code)
                raise

    async def _record(self, text: str, done: InstalledPackages | None, error: str) -> None:
        await self.journal.record(
            PackagesRecord(
                run_id=f"packages_{token_hex(16)}",
                at=time_stamp(datetime.now(UTC)),
                principal=self.principal,
                session_id=self.session_id,
                asked=_asked(text),
                installed=() if done is None else tuple(f"{one.name}=={one.version}" for one in done.new),
                bytes=0 if done is None else done.size,
                cached=done is not None and done.cached,
                error_type=error,
            )
        )


def _asked(text: str) -> tuple[str, ...]:
    """SECURITY: what is no requirement is not recorded: it may be an address with a password."""
    try:
        return tuple(one.text for one in parse_requirements(text))
    except PackageError:
        return ()
