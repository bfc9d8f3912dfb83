"""Installs packages for sessions of one tenant: allowed? known already? else resolved, fetched, unpacked, kept.

What a session has is a value, `SessionPackages`; publishing it in a sandbox is the session's business. Nothing of a
failed installation stays but wheels in the store, which nobody sees until they are published.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import tempfile
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import MoonpoolError
from moonpool.engine.files.errors import shown
from moonpool.engine.packages.fetching import open_build_sandbox
from moonpool.engine.packages.model import (
    InstalledPackage,
    InstalledPackages,
    PackageError,
    PackageRefusedError,
    PackageTooLargeError,
    SessionPackages,
)
from moonpool.engine.packages.specifiers import canonical_name, parse_requirements
from moonpool.engine.packages.store import WheelRef
from moonpool.engine.packages.wheels import WheelBounds
from moonpool.sandboxes.shielding import finish
from moonpool.store.private_files import private_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from moonpool.engine.network import GuestNetwork
    from moonpool.engine.packages.fetching import BuildSandbox, BuildSpec, FoundWheel
    from moonpool.engine.packages.model import StoredWheel
    from moonpool.engine.packages.specifiers import AllowedPackages
    from moonpool.engine.packages.store import Resolutions, WheelStore
    from moonpool.network.rules import NetworkRules
    from moonpool.sandboxes.pool import SandboxPool

FILES_MAX: Final = 60_000
"""Of all packages of a session."""
_FORMAT: Final = 1
_INFO: Final = re.compile(r"[^/]*\.dist-info/")


@dataclass(frozen=True, kw_only=True)
class InstallServices:
    """What installations of all tenants of a process share."""

    store: WheelStore
    folder: Path  # private, for files that pass
    build: BuildSpec
    environment: str  # its digest
    bytes_max: int  # that the packages of one session may take, unpacked
    taken: Callable[[str], str]  # who has a top-level module of this name already; empty: nobody
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
    ) -> tuple[SessionPackages, InstalledPackages]:
        """What the session has with `text` installed, too. Raises PackageError, and what opening a sandbox raises."""
        requirements = parse_requirements(text)
        self._allowed.check(requirements)
        wanted = {**current.requirements, **{one.name: one.text for one in requirements}}
        key = self._services.key(current, sorted(wanted.values()))
        found = await asyncio.to_thread(self._known, key)
        cached = found is not None
        if found is None:
            found = await self._fetch(wanted, current, key, open_network, principal)
        for wheel in found:
            self._allowed.check_needed(wheel.name)
        after = SessionPackages(wanted, {**current.wheels, **{wheel.name: wheel for wheel in found}})
        self._check(after)
        self._services.in_use.add(after)
        new = tuple(
            InstalledPackage(name=wheel.name, version=wheel.version)
            for wheel in found
            if current.wheels.get(wheel.name) != wheel
        )
        packages = tuple(InstalledPackage(name=one.name, version=one.version) for one in after.wheels.values())
        size = sum(wheel.size for wheel in after.wheels.values())
        return after, InstalledPackages(new=new, packages=packages, size=size, cached=cached)

    def _known(self, key: str) -> tuple[StoredWheel, ...] | None:
        refs = self._resolutions.find(key)
        if refs is None:
            return None
        stored = [self._services.store.find(ref.sha256) for ref in refs]
        return tuple(wheel for wheel in stored if wheel is not None) if None not in stored else None

    async def _fetch(
        self,
        wanted: Mapping[str, str],
        current: SessionPackages,
        key: str,
        open_network: Callable[[NetworkRules], GuestNetwork],
        principal: str,
    ) -> tuple[StoredWheel, ...]:
        services = self._services
        async with open_build_sandbox(
            self._pool, services.build, open_network, scope=self._scope, principal=principal
        ) as build:
            wheels = await build.resolve(sorted(wanted.values()), tuple(current.wheels.values()))
            for wheel in wheels:
                self._allowed.check_needed(canonical_name(wheel.name))
            stored = await self._stored(build, wheels)
        refs = tuple(WheelRef(name=one.name, version=one.version, sha256=one.sha256) for one in stored)
        kept = {one.sha256 for packages in tuple(services.in_use) for one in packages.wheels.values()}
        await asyncio.to_thread(self._resolutions.keep, key, refs)
        await asyncio.to_thread(services.store.evict, kept | {ref.sha256 for ref in refs})
        return stored

    async def _stored(self, build: BuildSandbox, wheels: Sequence[FoundWheel]) -> tuple[StoredWheel, ...]:
        """Those of `wheels` that are not in the store come there first."""
        at_hand = [await asyncio.to_thread(self._at_hand, one) for one in wheels]
        missing = [one for one, there in zip(wheels, at_hand, strict=True) if there is None]
        if missing:
            await build.download(missing)
        passing = await asyncio.to_thread(private_folder, self._services.folder)
        with tempfile.TemporaryDirectory(dir=passing, ignore_cleanup_errors=True) as folder:
            fetched = [await self._unpacked(build, n, one, Path(folder)) for n, one in enumerate(missing)]
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

        def unpack() -> StoredWheel:
            try:
                return services.store.keep(file, digest, bounds, name=wheel.name, version=wheel.version)
            except MoonpoolError:
                raise
            except OSError as error:
                why = (error.strerror or "it cannot be written").lower()
                raise PackageError(f"nothing was installed: {wheel.name} could not be unpacked here: {why}") from None
            finally:
                file.unlink(missing_ok=True)

        return await finish(asyncio.to_thread(unpack))

    def _check(self, packages: SessionPackages) -> None:
        """Raises PackageTooLargeError, PackageRefusedError."""
        bytes_max = self._services.bytes_max
        if (size := sum(wheel.size for wheel in packages.wheels.values())) > bytes_max:
            raise PackageTooLargeError(
                f"nothing was installed: the packages of this session would take {size:,} bytes, and {bytes_max:,} are "
                "allowed; reset the session and install less, or raise packages_bytes_max"
            )
        owners: dict[str, StoredWheel] = {}
        for wheel in packages.wheels.values():
            for name in sorted({path.partition("/")[0] for path in wheel.files if not _INFO.match(path)}):
                if owner := self._services.taken(name.partition(".")[0]):
                    raise PackageRefusedError(
                        f"the wheel of {wheel.name} was refused: {shown(name)} would take the place of a module of "
                        f"{owner}; nothing was installed"
                    )
            for path, content in wheel.files.items():
                owner = owners.setdefault(path, wheel)
                if owner is not wheel and owner.files[path] != content:
                    raise PackageRefusedError(
                        f"nothing was installed: {owner.name} and {wheel.name} both bring the file {path!r}; "
                        "install one of them"
                    )
        _check_folders(owners)
        if len(owners) > FILES_MAX:
            raise PackageTooLargeError(
                f"nothing was installed: the packages of this session would have {len(owners):,} files, and "
                f"{FILES_MAX:,} are allowed"
            )


def _check_folders(files: Iterable[str]) -> None:
    """Raises PackageRefusedError for a file in the place of a folder."""
    named, folders = frozenset(files), set[str]()
    for path in named:
        above = path.rpartition("/")[0]
        while above and above not in folders:
            folders.add(above)
            above = above.rpartition("/")[0]
    if clashes := folders & named:
        raise PackageRefusedError(
            f"nothing was installed: {min(clashes)!r} is a file in one package and a folder in another one; "
            "install one of them"
        )
