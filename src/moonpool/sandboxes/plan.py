"""Plans an outer sandbox: the bubblewrap command line, as a pure function. Snapshot-tested; nothing is decided
elsewhere.

There are two. `zygote_outer_sandbox` holds a zygote, which builds one sandbox after another inside it.
`execution_outer_sandbox` becomes the sandbox of one kernel. Both have all namespaces of their own, a read-only root
made of /usr and what the interpreter needs, no host file beyond that, an empty environment and a system-call filter.

INVARIANT: the remounts to read-only come last: what stands before them makes folders in the root.
SECURITY: bubblewrap must not be started by kernel uid 0: even in a user namespace, /proc/sys checks the global uid, and
core_pattern would be writable. The starter drops to a sandbox uid first.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moonpool.sandboxes.base import ImageSpec

_ETC = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts", "/etc/ssl/certs")
SHOWN_TO_ALL = ("/usr", "/bin", "/lib", "/lib64", "/sbin", "/dev", "/proc", *_ETC)
"""What every sandbox has of the machine, or something like it, beside the folders of its image."""
GUEST_ROOT = Path("/moonpool")
UID_INSIDE = "1000"
HOME_LINK = "/home/baponi"
"""Another name of `/workspace` in every sandbox: `HOME` of code that runs with a thread."""
_SHM, _TMP = "/dev/shm", "/tmp"  # noqa: S108  inside the sandbox
_SLOTS = Path("/slots")
_UID_CAPABILITIES = ("CAP_SETUID", "CAP_SETGID")  # of a zygote that gives each sandbox a uid
_CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_SETPCAP", "CAP_SYS_RESOURCE")  # mount; empty the bounding set; /proc/sys/user
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}  # fmt: skip
_VARIABLES = {"PATH": "/usr/bin:/bin", "HOME": "/home/user", "LANG": "C.UTF-8"}
_COVERED = tuple(
    map(
        Path,
        (
            _TMP,
            "/dev",
            "/proc",
            "/quota",
            "/workspace",
            "/home/user",
            HOME_LINK,
            "/data",
            "/wrappers",
            _SLOTS,
            GUEST_ROOT,
            "/usr/local",
        ),
    )
)
_TMPFS_SMALL = 65_536
_SHM_BYTES = 1_048_576
_OUTER_TMP_BYTES = 33_554_432


def covers(path: Path) -> bool:
    """Whether a host folder could not be seen at its own place in a sandbox, because something else is there."""
    plain = Path(os.path.normpath(path))
    return any(plain.is_relative_to(place) for place in _COVERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterSandboxParts:
    """The parts of an outer sandbox."""

    launcher: Path  # bubblewrap, or our own copy of it
    image: ImageSpec
    etc: Path  # folder with the passwd, group, hosts and nsswitch.conf that a sandbox sees
    slots: Path | None  # folder whose children are wrapper slots; None: no wrappers
    seccomp_fd: int
    hash_seed: int  # PYTHONHASHSEED
    merged_usr: bool = True
    folders: tuple[str, ...] = ()  # arguments that bind folders of the host


class MapFds(NamedTuple):
    """Descriptors by which the host hears whom to give uids (`--info-fd`), and says that it has."""

    info: int
    block: int


def zygote_outer_sandbox(parts: OuterSandboxParts, command: Sequence[str], *, maps: MapFds | None = None) -> list[str]:
    """The outer sandbox of a zygote. Folders that a sandbox mounts over are there, empty.

    `maps`: the host, which is root, maps uids for its sandboxes, and the zygote may change to them.
    """
    slots = ["--ro-bind", str(parts.slots), str(_SLOTS)] if parts.slots else ["--dir", str(_SLOTS)]
    uids: list[str] = []
    if maps is not None:
        uids = ["--info-fd", str(maps.info), "--userns-block-fd", str(maps.block), *_adding(_UID_CAPABILITIES)]
    return [*_base(parts), *uids, *_places(), *slots, "--chdir", "/", *_seal(parts), "--", *command]


def execution_outer_sandbox(parts: OuterSandboxParts, command: Sequence[str], *, info_fd: int) -> list[str]:
    """The outer sandbox that becomes one kernel's sandbox. `parts.slots` is its own slot; no other is bound.

    bubblewrap cannot bound inodes or share one quota among folders, so PID 1 keeps the capabilities for that and locks
    itself in (`moonpool_guest.confine`), with the same steps as a zygote's child.
    """
    slots = ["--ro-bind", str(parts.slots), str(_SLOTS / parts.slots.name)] if parts.slots else ["--dir", str(_SLOTS)]
    network = _adding(("CAP_NET_ADMIN",)) if parts.image.network else []  # over its own network alone, to bound it
    return [
        *_base(parts), *_adding(_CAPABILITIES), *network, "--as-pid-1", "--info-fd", str(info_fd),
        *_places(), *slots, *parts.folders, "--chdir", "/", *_seal(parts), "--", *command,
    ]  # fmt: skip


def _adding(capabilities: Sequence[str]) -> list[str]:
    return [word for name in capabilities for word in ("--cap-add", name)]


def _places() -> list[str]:
    """Devices, and empty folders to mount over.

    Not bubblewrap's own `--dev`: its devpts makes it add a user namespace, whose capabilities are worth nothing here.
    """
    devices = [word for name in _DEVICES for word in ("--dev-bind", f"/dev/{name}", f"/dev/{name}")]
    links = [word for name, target in _DEVICE_LINKS.items() for word in ("--symlink", target, f"/dev/{name}")]
    return [
        "--size", str(_TMPFS_SMALL), "--tmpfs", "/dev", *devices, *links, "--dir", "/dev/pts",
        "--size", str(_SHM_BYTES), "--tmpfs", _SHM,
        "--size", str(_OUTER_TMP_BYTES), "--tmpfs", _TMP,
        "--dir", "/quota", "--dir", "/workspace", "--dir", "/home/user", "--dir", "/data", "--dir", "/wrappers",
        "--symlink", "/workspace", HOME_LINK,
    ]  # fmt: skip


def _base(parts: OuterSandboxParts) -> list[str]:
    image = parts.image
    arguments = [
        str(parts.launcher),
        "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup",
        "--uid", UID_INSIDE, "--gid", UID_INSIDE,
        "--hostname", "sandbox",
        "--die-with-parent", "--new-session",
        "--cap-drop", "ALL",
        "--clearenv",
    ]  # fmt: skip
    for name, value in {**_VARIABLES, **image.variables, "PYTHONHASHSEED": str(parts.hash_seed)}.items():
        arguments += ["--setenv", name, _inside(image, value)]
    for folder in _folders_above(["/etc/ssl/certs", "/home/user", *map(str, map(image.inside, image.binds))]):
        arguments += ["--perms", "0755", "--dir", folder]
    arguments += ["--ro-bind", "/usr", "/usr"]
    if not str(image.python).startswith("/usr/local/"):
        arguments += [
            "--size",
            str(_TMPFS_SMALL),
            "--perms",
            "0555",
            "--tmpfs",
            "/usr/local",
            "--remount-ro",
            "/usr/local",
        ]
    for name in ("bin", "lib", "lib64", "sbin"):
        arguments += (
            ["--symlink", f"usr/{name}", f"/{name}"] if parts.merged_usr else ["--ro-bind-try", f"/{name}", f"/{name}"]
        )
    for path in _ETC:
        arguments += ["--ro-bind-try", path, path]
    for name in ("passwd", "group", "hosts", "nsswitch.conf"):
        arguments += ["--ro-bind", str(parts.etc / name), f"/etc/{name}"]
    for path in image.binds:
        arguments += ["--ro-bind", str(path), str(image.inside(path))]
    arguments += ["--ro-bind", str(image.guest), str(GUEST_ROOT), "--proc", "/proc"]
    return arguments


def _folders_above(paths: Sequence[str]) -> list[str]:
    """What bubblewrap would make for itself alone (0700): a sandbox that has another uid passes there, too."""
    above = {str(folder) for path in paths for folder in Path(path).parents}
    return sorted(folder for folder in above if folder != "/" and not Path(folder).is_relative_to("/usr"))


def _inside(image: ImageSpec, value: str) -> str:
    """A variable's value, which may be a path or a list of paths, as it must be in the sandbox."""
    if image.moved is None:
        return value
    return ":".join(str(image.inside(Path(part))) if part.startswith("/") else part for part in value.split(":"))


def _seal(parts: OuterSandboxParts) -> list[str]:
    return ["--remount-ro", "/dev", "--remount-ro", "/", "--seccomp", str(parts.seccomp_fd)]


def guest_command(image: ImageSpec, statement: str) -> list[str]:
    """The interpreter, isolated from every path but ours, running `statement`.

    What `-I` stands for, but for `-E`, which would not take the hash seed: the environment is the outer sandbox's own.
    """
    paths = [
        str(GUEST_ROOT),
        str(GUEST_ROOT / "moonpool_guest" / "path"),
        *map(str, map(image.inside, image.site_paths)),
    ]
    program = f"import sys; sys.path += {paths!r}; {statement}"
    return [str(image.inside(image.python)), "-s", "-P", "-S", "-B", "-X", "utf8", "-c", program]
