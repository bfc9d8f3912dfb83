"""Folders of this machine that an operator or an application attaches to a sandbox, and which may be.

Each is seen at its own path. Work is read-write, imports are read-only. Without root the sandbox has the uid of its
owner already; as root an id-mapped mount makes what the sandbox's uid does the owner's (`folder_mounts`), or a copy is
synchronised (`folder_copies`). What code may not touch in a folder is guarded inside, before any code runs
(`moonpool_guest.folders`). `folder_binding` binds them.

SECURITY: a folder is named by an operator or an application, never by code in a sandbox, a model or an MCP client. It
is opened without following a link, and what the sandbox has mounted is compared with what was opened.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.sandboxes.code_writable import let_code_write, link_of_code

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FOLDERS_MAX: Final = 8
FREE_BYTES_MIN: Final = 1024**3
"""What must be free where a folder is attached read-write: the sandbox's disk quota does not hold there."""

_REFUSED: Final = (
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/lost+found", "/media",
    "/mnt", "/opt", "/proc", "/root", "/run", "/sbin", "/snap", "/srv", "/sys", "/tmp", "/usr", "/var", "/var/tmp",  # noqa: S108
    "/var/lib", "/var/log", "/var/spool", "/usr/local",
)  # fmt: skip
"""Refused by name."""
_REFUSED_BELOW: Final = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var/log",
    "/environments", "/folders", "/moonpool", "/quota", "/slots", "/workspace", "/wrappers",
)  # fmt: skip
"""Refused with all that is below: the system's own, or the sandbox's."""
_OCTAL: Final = re.compile(rb"\\([0-3][0-7]{2})")
"""Of blanks and backslashes in /proc/self/mountinfo."""


class FolderError(MoonpoolError):
    """A folder of this machine cannot be attached, and nothing was started; or it is not the same as its copy."""

    code = "folder_refused"
    fault = Fault.CALLER


@dataclass(frozen=True, slots=True)
class HostFolder:
    """One folder: absolute, without links."""

    path: Path
    writable: bool
    fixed: tuple[str, ...] = ()  # what stays as it is, below it: Moonpool's own code, for one


@dataclass(frozen=True, slots=True)
class HostFolders:
    """Those of one session, the first being where its code starts. `is_workspace`: that one is `/workspace`, too."""

    shown: tuple[HostFolder, ...]
    is_workspace: bool = False


@dataclass(frozen=True, slots=True)
class FolderNews:
    """What must be said of folders that were made equal to their copies; empty where all went well."""

    remark: str = ""  # nothing is lost
    failure: str = ""  # what code did is not in the folder


NO_NEWS: Final = FolderNews()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What no folder may show, or let code change."""

    home: Path
    data: Path  # Moonpool's data folder
    own_code: tuple[Path, ...]


def attached(
    work: Sequence[str | os.PathLike[str]],
    *,
    imports: Iterable[str | os.PathLike[str]] = (),
    around: Surroundings,
    is_workspace: bool = False,
) -> HostFolders:
    """The folders of a session: `work` read-write, `imports` read-only. Raises FolderError.

    A folder is left out when it is in one of `work` already. One of another owner is read-only, unless we are root.
    """
    shown: list[HostFolder] = []
    for paths, writable in ((work, True), (imports, False)):
        for given in paths:
            others = [one.path for one in shown if one.writable]
            folder = _checked(Path(given).expanduser(), around, others, writable=writable)
            if not any(folder.path.is_relative_to(one.path) and (one.writable or not writable) for one in shown):
                shown.append(folder)
    if len(shown) > FOLDERS_MAX:
        raise FolderError(f"at most {FOLDERS_MAX} folders can be attached to a session, not {len(shown)}")
    for folder in shown:
        if folder.writable:
            let_code_write(folder.path, tuple(folder.path / one for one in folder.fixed))
    return HostFolders(tuple(shown), is_workspace)


def _checked(given: Path, around: Surroundings, others: Sequence[Path], *, writable: bool) -> HostFolder:
    try:
        if (link := link_of_code(given, others)) is not None:
            raise FolderError(f"{given} cannot be attached: {link} is a link that code may have made; remove it")
        path = given.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise FolderError(f"{str(given)!r} cannot be attached: {getattr(error, 'strerror', None) or error}") from None
    if not path.is_dir():
        raise FolderError(f"{path} cannot be attached: it is not a folder")
    if (why := _refusal(path, around, writable=writable)) is not None:
        raise FolderError(f"{path} cannot be attached: {why}; name a folder of its own for the work")
    found = path.stat()
    if os.geteuid() not in {0, found.st_uid}:
        writable = False
    space = os.statvfs(path)
    if writable and space.f_bavail * space.f_frsize < FREE_BYTES_MIN:
        raise FolderError(f"{path} cannot be attached: less than {FREE_BYTES_MIN:,} bytes are free on its file system")
    fixed = [own for own in (*around.own_code, *_environments(path)) if writable and own.is_relative_to(path)]
    outermost = [one for one in fixed if not any(one != other and one.is_relative_to(other) for other in fixed)]
    return HostFolder(path, writable, tuple(str(one.relative_to(path)) for one in outermost))


def _refusal(path: Path, around: Surroundings, *, writable: bool) -> str | None:
    if not str(path).isprintable():
        return "its name has characters that cannot be printed"
    if str(path) in _REFUSED or any(path.is_relative_to(place) for place in _REFUSED_BELOW):
        return "it is the system's own, or has the path of one of the sandbox's places"
    homes = {around.home.resolve(), *_homes()}
    if any(home.is_relative_to(path) for home in homes if home != Path("/")):
        return "it is a home, or holds one"
    data = around.data.resolve()
    if data.is_relative_to(path) or path.is_relative_to(data):
        return f"it holds Moonpool's data ({data}), or lies in it"
    if writable and any(path.is_relative_to(own) for own in around.own_code):
        return "Moonpool itself, or the Python that runs it, lies there"
    if writable and (link := _link_to_own_code(path, around)) is not None:
        return f"Moonpool's Python runs by way of {link}, a link that code could replace"
    if writable and sys.pycache_prefix is not None and Path(sys.pycache_prefix).resolve().is_relative_to(path):
        return f"Python keeps compiled modules there, in {sys.pycache_prefix} (PYTHONPYCACHEPREFIX)"
    below = next((place for place in _mount_points() if place != path and place.is_relative_to(path)), None)
    if below is None:
        return None
    return f"{os.fsencode(below).decode(errors='backslashreplace')}, below it, is a mount point"


def _homes() -> set[Path]:
    """The homes of this machine's accounts, but for those that stand for none."""
    homes: set[Path] = set()
    try:
        lines = Path("/etc/passwd").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise FolderError(f"no folder can be attached: the homes of this machine are unknown ({error})") from None
    for fields in (line.split(":") for line in lines):
        if len(fields) > 6 and fields[2].isdigit() and (int(fields[2]) == 0 or 1000 <= int(fields[2]) < 60_000):
            homes.add(Path(fields[5]))
    return homes


def _link_to_own_code(path: Path, around: Surroundings) -> Path | None:
    """A link in the folder `path`, beside what is read-only there, on the way to what this process runs."""
    for place in (sys.executable, sys.prefix, sys.exec_prefix, sys.base_prefix, str(Path(__file__).parents[2])):
        link = link_of_code(Path(place), [path])
        if link is not None and not any(link.parent.resolve().is_relative_to(own) for own in around.own_code):
            return link
    return None


def own_code() -> tuple[Path, ...]:
    """Moonpool's packages and the Python that runs it: whoever changes these is out of the sandbox.

    Where Moonpool is installed, all that is installed beside it, for it imports that.
    """
    packages = Path(__file__).resolve().parents[2]
    code = [packages / name for name in ("moonpool", "moonpool_guest", "moonpool_wire")]
    code += [packages] if any(packages.glob("moonpool-*.dist-info")) else []
    prefixes = [Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)]
    return tuple(dict.fromkeys(path for path in (*code, *prefixes) if path.exists() and path != Path("/usr")))


def _environments(folder: Path) -> set[Path]:
    """The virtual environments in a folder from which this process imports, beside the one that it runs in.

    SECURITY: where code could write there, their libraries would be taken for modules of the folder (`late_imports`).
    """
    entries = (Path(os.path.realpath(entry)) for entry in sys.path if os.path.isabs(entry))  # noqa: PTH117
    above = (place for entry in entries if entry.name == "site-packages" for place in entry.parents)
    return {place for place in above if folder in place.parents and (place / "pyvenv.cfg").is_file()}


def _mount_points() -> list[Path]:
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().strip().split(b"\n")
    except OSError as error:
        raise FolderError(f"no folder can be attached: the mounts of this machine are unknown ({error})") from None
    return [
        Path(os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), line.split(b" ")[4]))) for line in lines
    ]
