"""Installs packages for sessions of one tenant: allowed? known already? else resolved, fetched, unpacked, kept.

What a session has is a value, `SessionPackages`; publishing it in a sandbox is the session's business. Nothing of a
failed installation stays but wheels in the store, which nobody sees until they are published.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import weakref
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import MoonpoolError
from moonpool.engine.files.errors import shown
from moonpool.engine.packages.fetching import open_build_sandbox
from moonpool.engine.packages.model import (
    InstalledPackages,
    PackageError,
    PackageTooLargeError,
    SessionPackages,
    installed_package,
)
from moonpool.engine.packages.overlaps import check_overlaps
from moonpool.engine.packages.specifiers import canonical_name, parse_requirements
from moonpool.engine.packages.store import WheelRef
from moonpool.engine.packages.wheels import WheelBounds
from moonpool.sandboxes.shielding import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from moonpool.engine.network import GuestNetwork
    from moonpool.engine.packages.fetching import BuildSandbox, BuildSpec, FoundWheel
    from moonpool.engine.packages.model import StoredWheel
    from moonpool.engine.packages.overlaps import TakenModules
    from moonpool.engine.packages.specifiers import AllowedPackages
    from moonpool.engine.packages.store import Resolutions, WheelStore
    from moonpool.network.rules import NetworkRules
    from moonpool.sandboxes.pool import SandboxPool

FILES_MAX: Final = 60_000
"""Of all packages of a session."""
_FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True)
class InstallServices:
    """What installations of all tenants of a process share."""

    store: WheelStore
    build: BuildSpec
    environment: str  # its digest
    bytes_max: int  # that the packages of one session may take, unpacked
    taken: TakenModules
    sandboxes_max: int  # that the tenant may have at once
    in_use: weakref.WeakSet[SessionPackages] = field(default_factory=weakref.WeakSet[SessionPackages])

    def key(self, current: SessionPackages, wanted: Sequence[str]) -> str:
        """Names a question to the resolver: the same one has the same answer for a while."""
        index = self.build.index
        asked = [_FORMAT, self.environment, index.options, sorted(index.variables.items()), current.digest, wanted]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


class PackageInstaller:
    """Installs packages for the sessions of one tenant."""

    def __init__(
        self,
        services: InstallServices,
        resolutions: Resolutions,
        allowed: AllowedPackages,
        pool: SandboxPool,
        *,
        scope: str,
    ) -> None:
        self._services, self._resolutions, self._allowed, self._pool = services, resolutions, allowed, pool
        self._scope = scope

    async def install(
        self,
        text: str,
        current: SessionPackages,
        open_network: Callable[[NetworkRules], GuestNetwork],
        *,
        principal: str,
        has_sandbox: bool,
    ) -> tuple[SessionPackages, InstalledPackages]:
        """What the session, which may have a sandbox now, has with `text` installed, too.

        Raises PackageError, and what opening a sandbox raises.
        """
        requirements = parse_requirements(text)
        self._allowed.check(requirements)
        wanted = {**current.requirements, **{one.name: one.text for one in requirements}}
        there = await asyncio.to_thread(_still_there, current)
        gone = [f"{one.name}=={one.version}" for name, one in current.wheels.items() if name not in there.wheels]
        asked = sorted([*wanted.values(), *gone])
        key = self._services.key(there, asked)
        found = await asyncio.to_thread(self._known, key)
        cached = found is not None
        if found is None:
            if has_sandbox and self._services.sandboxes_max == 1:
                raise PackageError(
                    "nothing was installed: packages are fetched in another sandbox, and this session has the only one",
                    remedy="raise sandboxes_max or sandboxes_per_tenant_max",
                )
            found = await self._fetch(asked, there, key, open_network, principal)
        for wheel in found:
            self._allowed.check_needed(wheel.name)
        after = SessionPackages(wanted, {**current.wheels, **{wheel.name: wheel for wheel in found}})
        self._services.in_use.add(after)
        await asyncio.to_thread(self._check, after)
        new = tuple(installed_package(wheel) for wheel in found if current.wheels.get(wheel.name) != wheel)
        size = sum(wheel.size for wheel in after.wheels.values())
        return after, InstalledPackages(new=new, packages=after.packages, size=size, cached=cached)

    async def again(self, requirements: Mapping[str, str], refs: Sequence[WheelRef]) -> SessionPackages | None:
        """What a session had that installed `refs`; None if not all of them are here still.

        Raises PackageError for what is not allowed any more. SECURITY: both may be anybody's words.
        """
        asked = parse_requirements("\n".join(requirements.values()))
        self._allowed.check(asked)
        for ref in refs:
            self._allowed.check_needed(canonical_name(ref.name))
        found = await asyncio.to_thread(lambda: [self._services.store.find(ref.sha256) for ref in refs])
        wheels = [one for one in found if one is not None]
        is_same = [(one.name, one.version) for one in wheels] == [(ref.name, ref.version) for ref in refs]
        if not is_same:
            return None
        again = SessionPackages({one.name: one.text for one in asked}, {one.name: one for one in wheels})
        self._services.in_use.add(again)
        await asyncio.to_thread(self._check, again)
        return again

    def _known(self, key: str) -> tuple[StoredWheel, ...] | None:
        refs = self._resolutions.find(key)
        if refs is None:
            return None
        stored = [self._services.store.find(ref.sha256) for ref in refs]
        return tuple(wheel for wheel in stored if wheel is not None) if None not in stored else None

    async def _fetch(
        self,
        asked: Sequence[str],
        current: SessionPackages,
        key: str,
        open_network: Callable[[NetworkRules], GuestNetwork],
        principal: str,
    ) -> tuple[StoredWheel, ...]:
        services = self._services
        async with open_build_sandbox(
            self._pool, services.build, open_network, scope=self._scope, principal=principal
        ) as build:
            wheels = await build.resolve(asked, tuple(current.wheels.values()))
            for wheel in wheels:
                self._allowed.check_needed(canonical_name(wheel.name))
            stored = await self._stored(build, wheels)
        held = SessionPackages(wheels={one.name: one for one in stored})  # until the session has them
        services.in_use.add(held)
        kept = {one.sha256 for packages in tuple(services.in_use) for one in packages.wheels.values()}
        refs = tuple(WheelRef(name=one.name, version=one.version, sha256=one.sha256) for one in stored)
        await asyncio.to_thread(self._resolutions.keep, key, refs)
        await asyncio.to_thread(services.store.evict, kept)
        return tuple(held.wheels.values())

    async def _stored(self, build: BuildSandbox, wheels: Sequence[FoundWheel]) -> tuple[StoredWheel, ...]:
        """Those of `wheels` that are not in the store come there first."""
        at_hand = [await asyncio.to_thread(self._at_hand, one) for one in wheels]
        missing = [one for one, there in zip(wheels, at_hand, strict=True) if there is None]
        if missing:
            await build.download(missing)
        working = ExitStack()
        try:
            folder = await in_thread(lambda: working.enter_context(self._services.store.working_folder()))
            fetched = [await self._unpacked(build, n, one, folder) for n, one in enumerate(missing)]
        except OSError as error:
            raise _not_unpacked("its file", error) from None
        finally:
            await in_thread(working.close)
        rest = iter(fetched)
        return tuple(there or next(rest) for there in at_hand)

    def _at_hand(self, wheel: FoundWheel) -> StoredWheel | None:
        """SECURITY: under the name that was asked for only, as the file itself is judged when it is unpacked."""
        found = self._services.store.find(wheel.sha256) if wheel.sha256 else None
        is_it = found is not None and (found.name, found.version) == (canonical_name(wheel.name), wheel.version)
        return found if is_it else None

    async def _unpacked(self, build: BuildSandbox, number: int, wheel: FoundWheel, folder: Path) -> StoredWheel:
        services = self._services
        file = folder / f"{number}.whl"
        digest = await build.take(number, wheel, file)
        bounds = WheelBounds(bytes_max=services.bytes_max, files_max=FILES_MAX)
        given_up = threading.Event()

        def unpack() -> StoredWheel:
            try:
                return services.store.keep(
                    file, digest, bounds, name=wheel.name, version=wheel.version, given_up=given_up
                )
            except MoonpoolError:
                raise
            except OSError as error:
                raise _not_unpacked(wheel.name, error) from None
            finally:
                file.unlink(missing_ok=True)

        return await in_thread(unpack, given_up=given_up)

    def _check(self, packages: SessionPackages) -> None:
        """Raises PackageTooLargeError, PackageRefusedError. Blocks for a moment where there are many files."""
        bytes_max = self._services.bytes_max
        if (size := sum(wheel.size for wheel in packages.wheels.values())) > bytes_max:
            raise PackageTooLargeError(
                f"nothing was installed: the packages of this session would take {size:,} bytes, and {bytes_max:,} are "
                "allowed; install less in another session",
                remedy="or raise packages_bytes_max",
            )
        if (count := check_overlaps(packages.wheels.values(), self._services.taken)) > FILES_MAX:
            raise PackageTooLargeError(
                f"nothing was installed: the packages of this session would have {count:,} files, and "
                f"{FILES_MAX:,} are allowed"
            )


def _still_there(packages: SessionPackages) -> SessionPackages:
    """Without what another process evicted meanwhile. Blocks."""
    wheels = {name: wheel for name, wheel in packages.wheels.items() if wheel.folder.is_dir()}
    return SessionPackages(packages.requirements, wheels)


def _not_unpacked(what: str, error: OSError) -> PackageError:
    why = (error.strerror or "it cannot be written").lower()
    return PackageError(f"nothing was installed: {shown(what)} could not be unpacked here: {why}")
