"""What may be asked for: packages by name and version, and the operator's list of names. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from moonpool.core.errors import ConfigError
from moonpool.engine.packages.model import PackageDisallowedError, PackageSpecifierError

REQUIREMENTS_MAX: Final = 50
_CHARS_MAX: Final = 4000
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_CLAUSE: Final = r"(?:===|==|~=|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]+"
_REQUIREMENT: Final = re.compile(
    rf"({_NAME})\s*(\[\s*{_NAME}(?:\s*,\s*{_NAME})*\s*\])?\s*({_CLAUSE}(?:\s*,\s*{_CLAUSE})*)?(?=\s|$)", re.ASCII
)
_PATTERN: Final = re.compile(r"!?[A-Za-z0-9*?\[\]._-]+", re.ASCII)
_EXAMPLE: Final = "name packages of the index, such as `numpy` or `pandas>=2,<3`"


def canonical_name(name: str) -> str:
    """The one form in which names of packages are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True, slots=True)
class Requirement:
    """One package that is asked for."""

    name: str  # canonical
    text: str  # as the resolver reads it


def parse_requirements(text: str) -> tuple[Requirement, ...]:
    """Requirements separated by spaces or lines; the last of a name counts. Raises PackageSpecifierError."""
    if len(text) > _CHARS_MAX:
        raise PackageSpecifierError(f"{len(text):,} characters are more than the {_CHARS_MAX:,} of one installation")
    found: dict[str, Requirement] = {}
    rest = text.strip()
    while rest:
        match = _REQUIREMENT.match(rest)
        if match is None or _is_file(match[1]):
            raise PackageSpecifierError(_why(rest))
        name = canonical_name(match[1])
        found[name] = Requirement(name, re.sub(r"\s+", "", match[0]))
        rest = rest[match.end() :].lstrip()
    if not found:
        raise PackageSpecifierError(f"there is nothing to install; {_EXAMPLE}")
    if len(found) > REQUIREMENTS_MAX:
        raise PackageSpecifierError(f"{len(found)} packages are more than the {REQUIREMENTS_MAX} of one installation")
    return tuple(found.values())


def _is_file(name: str) -> bool:
    return name.lower().endswith((".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".txt", ".git"))


def _why(rest: str) -> str:
    word = rest.split(maxsplit=1)[0][:100]
    word = re.sub(r"//[^/@\s]+@", "//***@", word)
    shown = "".join(char if char.isprintable() else "?" for char in word)
    after = rest[len(word) :].lstrip()[:4]
    if "git+" in rest or word.endswith(".git"):
        what = f"{shown!r} is a git address, whose build script would have to run; only packages of the index install"
    elif word.startswith("-"):
        what = f"{shown!r} is an option; there are none here"
    elif "://" in rest or "@" in word or after.startswith("@") or _is_file(word):
        what = f"{shown!r} is an address or a file; only packages of the index install"
    elif word.startswith((".", "/", "~")):
        what = f"{shown!r} is a path; only packages of the index install"
    elif ";" in word:
        what = f"{shown!r} has a marker; leave out what follows the semicolon"
    else:
        what = f"{shown!r} is no requirement"
    return f"{what}; {_EXAMPLE}"


@dataclass(frozen=True, slots=True)
class AllowedPackages:
    """The operator's list. What is asked for must be on it; what that needs comes along unless it is denied."""

    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> AllowedPackages:
        """`any`, or names with `*`, separated by commas; `!name` denies. Raises ConfigError."""
        words = [word for part in text.split(",") if (word := part.strip())]
        if wrong := [word for word in words if not _PATTERN.fullmatch(word)]:
            raise ConfigError(f"packages: {wrong[0][:80]!r} is no name; write `any`, `none`, or names such as `numpy`")
        patterns = ["*" if word == "any" else word for word in words]
        denied = [word[1:] for word in patterns if word.startswith("!")]
        allowed = [word for word in patterns if not word.startswith("!")]
        return cls(tuple(map(canonical_name, allowed)), tuple(map(canonical_name, denied)))

    def check(self, requirements: tuple[Requirement, ...]) -> None:
        """Raises PackageDisallowedError for what may not be asked for."""
        for one in requirements:
            self.check_needed(one.name)
            if not any(fnmatchcase(one.name, pattern) for pattern in self.allowed):
                raise PackageDisallowedError(
                    f"{one.name} is not among the packages that are allowed",
                    remedy="an operator names it in MOONPOOL_PACKAGES, an application in packages=",
                )

    def check_needed(self, name: str) -> None:
        """Raises PackageDisallowedError for what may not be installed for others' sake, either."""
        if any(fnmatchcase(name, pattern) for pattern in self.denied):
            raise PackageDisallowedError(f"{name} is denied here", remedy="MOONPOOL_PACKAGES says so")
