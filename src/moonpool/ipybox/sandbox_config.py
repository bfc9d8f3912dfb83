"""`sandbox_config`: a settings file of sandbox-runtime, as what a Moonpool session can be granted.

The default of `sandbox=True` and `sandbox=False` is sandbox-runtime's default file in ipybox: no domain, the working
directory. What a file forbids is kept by granting less; what it would grant and Moonpool does not is one error.

INVARIANT: nothing in a file is ignored. A member is granted, or holds anyway, or is refused with an error.
SECURITY: a file is read once, before its folder is attached, and code cannot change it there.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from moonpool.core.errors import ConfigError
from moonpool.network.rules import NetworkRuleError, parse_domain
from moonpool.sandboxes.code_writable import link_of_code
from moonpool.sandboxes.folder_binding import open_without_links
from moonpool.sandboxes.host_folders import FolderError, own_code
from moonpool.sandboxes.plan import SHOWN_TO_ALL
from moonpool.settings import Settings
from moonpool.store.paths import data_dir

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_BYTES_MAX: Final = 1024 * 1024
_LISTS: Final = {
    "network": ("allowedDomains", "deniedDomains", "allowUnixSockets"),
    "filesystem": ("denyRead", "allowWrite", "denyWrite"),
}
_SWITCHES: Final = {
    "network": ("allowLocalBinding", "allowAllUnixSockets"),
    "": ("allowPty", "enableWeakerNestedSandbox"),
}
_OF_THE_KERNEL: Final = ("~/Library/Jupyter", "~/.ipython", "~/.jupyter", "/dev/null", "/tmp")  # noqa: S108  its own
"""What a kernel has in its sandbox anyway."""
_HIDDEN: Final = ".env"
"""No code sees such a file of this machine, in whichever folder."""
_DEFAULT: Final[dict[str, dict[str, list[str]]]] = {
    "network": {"allowedDomains": [], "deniedDomains": []},
    "filesystem": {"denyRead": [_HIDDEN], "allowWrite": ["."], "denyWrite": []},
}


@dataclass(frozen=True, slots=True)
class SandboxRules:
    """What a file says, as it was when it was read. Without a file: no network, nothing else."""

    file: Path | None = None
    members: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def fixed(self) -> tuple[Path, ...]:
        """What code may not change, so that it cannot grant itself more at a next start."""
        return () if self.file is None else (self.file,)

    def domains(self, work: Sequence[Path], imports: Sequence[Path], environ: Mapping[str, str]) -> tuple[str, ...]:
        """The domains that code may reach, which may write in `work`, starts in the first, and may read `imports`.

        Relative paths are below the first. Blocking. Raises ConfigError for what the file would grant or forbid and
        cannot be, FolderError where code may have made a link to it.
        """
        if self.file is None:
            return ()
        if (link := link_of_code(self.file, work)) is not None:
            raise FolderError(f"the sandbox configuration {self.file}: {link} is a link that code may have made")
        try:
            writable = [folder.resolve() for folder in work]
            read_only = [folder.resolve() for folder in (*imports, *_seen_by_all(environ))]
            found, here = self.members, writable[0]
            _check_granted(found, writable)
            _check_denied(found.get("filesystem.denyWrite", ()), "filesystem.denyWrite", writable, here)
            _check_denied(found.get("filesystem.denyRead", ()), "filesystem.denyRead", [*writable, *read_only], here)
            return _domains(found.get("network.allowedDomains", ()), found.get("network.deniedDomains", ()))
        except (ValueError, NetworkRuleError) as error:
            raise ConfigError(f"the sandbox configuration {self.file}: {error}") from None


def read_rules(path: Path) -> SandboxRules:
    """What a file says. Blocking. Raises ConfigError for what is no settings file."""
    path = path.absolute()
    try:
        with path.open("rb") as file:
            content = file.read(_BYTES_MAX + 1)
        document: object = json.loads(content) if len(content) <= _BYTES_MAX else None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"the sandbox configuration {path} cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise ConfigError(f"the sandbox configuration {path} must be a JSON object of at most {_BYTES_MAX} bytes")
    try:
        return SandboxRules(path, _checked(cast("dict[str, Any]", document)))
    except ValueError as error:
        raise ConfigError(f"the sandbox configuration {path}: {error}") from None


def write_default(path: Path) -> bool:
    """Make a file that says what holds without one, unless there is one. Blocking. Raises ConfigError."""
    try:
        at = open_without_links(path.parent.resolve())
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(path.name, flags, 0o644, dir_fd=at), "w", encoding="utf-8") as file:
                json.dump(_DEFAULT, file, indent=2)
        finally:
            os.close(at)
    except FileExistsError:
        return False
    except OSError as error:
        raise ConfigError(f"the sandbox configuration {path} is not there and cannot be made: {error}") from None
    return True


def _seen_by_all(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """What code reads in every sandbox."""
    environments = (Settings.load(environ).data_dir or data_dir(os.geteuid(), environ)) / "environments"
    return (*map(Path, SHOWN_TO_ALL), *own_code(), environments)


def _check_granted(found: Mapping[str, Any], writable: Sequence[Path]) -> None:
    """Raise ValueError where the file grants more than code gets, or less than these folders."""
    for name in ("network.allowAllUnixSockets", "network.allowUnixSockets"):
        if found.get(name):
            raise ValueError(f"{name} cannot be granted: a sandbox reaches no socket of this machine; remove it")
    if (allowed := found.get("filesystem.allowWrite")) is None:
        return
    places = {text: _absolute(text, writable[0]) for text in allowed}
    for text, place in places.items():
        if text not in _OF_THE_KERNEL and not any(place.is_relative_to(folder) for folder in writable):
            raise ValueError(
                f"filesystem.allowWrite cannot grant {text!r}: code may have the working directory ('.'); "
                "name the folder as working_dir of the executor instead"
            )
    for folder in writable:
        if not any(folder.is_relative_to(place) for place in places.values()):
            raise ValueError(
                f"filesystem.allowWrite keeps {str(folder)!r} back, which code may write here; add it ('.' is the "
                "working directory), or name an empty folder as working_dir"
            )


def _check_denied(denied: Iterable[str], name: str, given: Sequence[Path], working_dir: Path) -> None:
    """Raise ValueError where the member `name` keeps back what code has, or what is above or below it."""
    for text in denied:
        place = _absolute(text, working_dir)
        if place.name == _HIDDEN:
            continue
        if any(sign in text for sign in "*?["):
            raise ValueError(f"{name} cannot keep {text!r} back: patterns are not supported; name files or folders")
        for folder in given:
            if place.is_relative_to(folder) or folder.is_relative_to(place):
                why = f"code has {str(folder)!r}; move what it must not have out of the folders that it is given"
                raise ValueError(f"{name} cannot keep {text!r} back: {why}")


def _checked(document: Mapping[str, Any]) -> dict[str, Any]:
    """All members by `section.name`, of the right types. Raises ValueError."""
    found: dict[str, Any] = {}
    for section, members in document.items():
        if section not in _LISTS:
            found[section] = members
        elif not isinstance(members, dict):
            raise ValueError(f"{section} must be an object")
        else:
            found.update({f"{section}.{name}": value for name, value in cast("dict[str, Any]", members).items()})
    lists = {f"{section}.{name}" for section, names in _LISTS.items() for name in names}
    switches = {f"{section}.{name}".lstrip(".") for section, names in _SWITCHES.items() for name in names}
    for name, value in found.items():
        if name in lists:
            if not isinstance(value, list) or not all(isinstance(one, str) for one in cast("list[Any]", value)):
                raise ValueError(f"{name} must be a list of strings")
        elif name not in switches:
            raise ValueError(f"{name} is not known; there are {', '.join(sorted(lists | switches))}")
        elif not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false")
    return found


def _domains(allowed: list[str], denied: list[str]) -> tuple[str, ...]:
    """The allowed ones without the denied ones. Raises ValueError where no list of allowed ones says that."""
    kept = {text: parse_domain(text) for text in allowed}
    for text in denied:
        gone = parse_domain(text)
        for name, rule in tuple(kept.items()):
            if rule.within(gone):
                del kept[name]
            elif gone.within(rule):
                raise ValueError(
                    f"network.deniedDomains takes {text!r} out of {name!r}, which cannot be kept; allow less"
                )
    return tuple(kept)


def _absolute(text: str, working_dir: Path) -> Path:
    return (working_dir / Path(text).expanduser()).resolve()
