"""Where this process stands in the control groups of its machine: mounts and own folders, read from /proc. Pure text.

Both versions can be mounted at once, with controllers spread over them; a container may show only a part of a tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_V1_WANTED = ("memory", "pids", "cpu", "cpuacct")


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupMount:
    """One mounted hierarchy."""

    version: int
    point: Path
    root: str  # the part of the hierarchy that is mounted here
    controllers: frozenset[str]  # of version 1; version 2 says in `cgroup.controllers`

    def folder_of(self, path: str) -> Path:
        """The folder of the group that /proc/self/cgroup calls `path`. A path outside the mount is the mount itself."""
        try:
            inside = PurePosixPath(path).relative_to(self.root)
        except ValueError:
            inside = PurePosixPath()
        return self.point / inside


def parse_mounts(text: str) -> tuple[CgroupMount, ...]:
    """The hierarchies in a /proc/self/mountinfo."""
    found: list[CgroupMount] = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        found.append(
            CgroupMount(
                version=2 if kind[0] == "cgroup2" else 1,
                point=Path(_unescaped(fields[4])),
                root=_unescaped(fields[3]),
                controllers=frozenset(kind[2].split(",")) & frozenset(_V1_WANTED),
            )
        )
    return tuple(found)


def parse_own_groups(text: str) -> dict[str, str]:
    """Controller to path in a /proc/self/cgroup; the name of version 2 is empty."""
    paths: dict[str, str] = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number.isdigit() and path.startswith("/"):
            paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def v1_folders(mounts: tuple[CgroupMount, ...], paths: dict[str, str]) -> dict[str, Path]:
    """Our own folder per controller of version 1, for those that are mounted."""
    return {
        controller: mount.folder_of(paths[controller])
        for mount in mounts
        if mount.version == 1
        for controller in mount.controllers
        if controller in paths
    }


def v2_folder(mounts: tuple[CgroupMount, ...], paths: dict[str, str]) -> Path | None:
    """Our own folder in version 2, if it is mounted."""
    return next((mount.folder_of(paths[""]) for mount in mounts if mount.version == 2 and "" in paths), None)


def _unescaped(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
