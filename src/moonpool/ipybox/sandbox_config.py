"""`sandbox_config`: a settings file of sandbox-runtime, as what a Moonpool session can be granted.

The default of `sandbox=True` and `sandbox=False` is sandbox-runtime's default file in ipybox: no domain, the working
directory. What a file forbids is kept by granting less; what it would grant and Moonpool does not is one error.

INVARIANT: nothing in a file is ignored. A member is granted, or holds anyway, or is refused with an error.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from moonpool.core.errors import ConfigError
from moonpool.network.rules import NetworkRuleError, parse_domain

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def allowed_domains(path: Path, working_dir: Path) -> tuple[str, ...]:
    """The domains that a file lets code reach, as `network` of a session takes them.

    Relative paths in it are below `working_dir`. Raises ConfigError for what it would grant or forbid and cannot be.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_BYTES_MAX + 1)
        document: object = json.loads(content) if len(content) <= _BYTES_MAX else None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"the sandbox configuration {path} cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise ConfigError(f"the sandbox configuration {path} must be a JSON object of at most {_BYTES_MAX} bytes")
    try:
        return _granted(cast("dict[str, Any]", document), working_dir)
    except (ValueError, NetworkRuleError) as error:
        raise ConfigError(f"the sandbox configuration {path}: {error}") from None


def _granted(document: Mapping[str, Any], working_dir: Path) -> tuple[str, ...]:
    found = _checked(document)
    for name in ("network.allowAllUnixSockets", "network.allowUnixSockets"):
        if found.get(name):
            raise ValueError(f"{name} cannot be granted: a sandbox reaches no socket of this machine; remove it")
    for text in found.get("filesystem.allowWrite", ()):
        if text not in _OF_THE_KERNEL and _absolute(text, working_dir) != working_dir:
            raise ValueError(
                f"filesystem.allowWrite cannot grant {text!r}: code may have the working directory ('.'); "
                "name the folder as working_dir of the executor instead"
            )
    for name in ("filesystem.denyRead", "filesystem.denyWrite"):
        for text in found.get(name, ()):
            place = _absolute(text, working_dir)
            if place.name != _HIDDEN and (place.is_relative_to(working_dir) or any(sign in text for sign in "*?[")):
                raise ValueError(f"{name} cannot keep {text!r} back within the working directory; move it elsewhere")
    return _domains(found.get("network.allowedDomains", ()), found.get("network.deniedDomains", ()))


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
