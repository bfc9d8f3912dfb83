"""What an installation came to, and the errors it can end in."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moonpool.core.errors import Fault, MoonpoolError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPackage:
    """One package that a session can import besides those of its environment."""

    name: str  # of its distribution, normalised
    version: str  # the one that is installed
    sha256: str  # of its wheel, in hex


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPackages:
    """What an installation came to."""

    new: tuple[InstalledPackage, ...]  # installed or changed by it, dependencies included; empty: all was there
    packages: tuple[InstalledPackage, ...]  # all that the session has now
    size: int  # bytes on disk of all of these
    cached: bool  # whether nothing had to be resolved or fetched

    def __str__(self) -> str:
        if not self.new:
            return "nothing to install: everything that was asked for is there already"
        return "installed " + ", ".join(f"{one.name}=={one.version}" for one in self.new)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWheel:
    """An unpacked wheel. `folder` holds its files as they are published."""

    name: str
    version: str
    sha256: str
    folder: Path
    metadata: str
    size: int
    files: Mapping[str, str]  # path -> SHA-256 in hex


@dataclass(frozen=True, eq=False)
class SessionPackages:
    """All that a session installed."""

    requirements: Mapping[str, str] = field(default_factory=dict[str, str])  # what was asked for, by canonical name
    wheels: Mapping[str, StoredWheel] = field(default_factory=dict[str, StoredWheel])  # by canonical name

    @property
    def digest(self) -> str:
        """Names this set of wheels; empty when there are none."""
        digests = sorted(wheel.sha256 for wheel in self.wheels.values())
        return hashlib.sha256("".join(digests).encode()).hexdigest() if digests else ""

    @property
    def packages(self) -> tuple[InstalledPackage, ...]:
        """What they are called."""
        return tuple(map(installed_package, self.wheels.values()))

    @property
    def folders(self) -> tuple[Path, ...]:
        """What is to be published."""
        return tuple(wheel.folder for wheel in self.wheels.values())


def installed_package(wheel: StoredWheel) -> InstalledPackage:
    return InstalledPackage(name=wheel.name, version=wheel.version, sha256=wheel.sha256)


class PackageError(MoonpoolError):
    """A package was not installed. The session is as it was."""

    code = "package_install_failed"
    fault = Fault.HOST
    retryable = True

    def __init__(self, message: str, *, remedy: str = "") -> None:
        """SECURITY: `remedy` is for operators and applications. Code is not told how to change a rule: `for_guest`."""
        super().__init__(f"{message}; {remedy}" if remedy else message)
        self.for_guest = message

    def _told_elsewhere(self) -> str:
        return self.for_guest if self.fault is Fault.HOST else str(self)


class PackagesOffError(PackageError):
    """Nobody allowed this session to install packages."""

    code = "packages_off"
    fault = Fault.CALLER
    retryable = False

    def __init__(self) -> None:
        super().__init__(
            "packages cannot be installed here: nobody allowed it",
            remedy="an operator sets MOONPOOL_PACKAGES, an application gives packages= to its session",
        )


class PackageSpecifierError(PackageError):
    """What was to be installed is no package by name: a URL, a path, an option, or no requirement at all."""

    code = "package_specifier_invalid"
    fault = Fault.CALLER
    retryable = False


class PackageDisallowedError(PackageError):
    """The operator's list does not allow this package, or one that it needs."""

    code = "package_disallowed"
    fault = Fault.CALLER
    retryable = False


class PackageUnknownError(PackageError):
    """The index has no such package, or no version of it that fits."""

    code = "package_unknown"
    fault = Fault.CALLER
    retryable = False


class PackageYankedError(PackageError):
    """The versions that fit were withdrawn by their authors."""

    code = "package_yanked"
    fault = Fault.CALLER
    retryable = False


class PackageWithoutWheelError(PackageError):
    """There is no wheel for this interpreter: only source, whose build script would have to run, or other platforms."""

    code = "package_without_wheel"
    fault = Fault.CALLER
    retryable = False


class PackageConflictError(PackageError):
    """Requirements exclude each other, or the versions of the environment."""

    code = "package_conflict"
    fault = Fault.CALLER
    retryable = False


class PackageRefusedError(PackageError):
    """A package holds what is never published: a link, a name that leads out, or one that others have."""

    code = "package_refused"
    fault = Fault.UPSTREAM
    retryable = False


class PackageTooLargeError(PackageError):
    """The packages are larger than a session may install."""

    code = "package_too_large"
    fault = Fault.CALLER
    retryable = False
