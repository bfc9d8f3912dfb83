"""Sockets of container engines: whoever can talk to one is root on the host (H-054, H-080).

Sandboxes are shown a short list of folders, and none of them holds such a socket. `refuse_shown` makes sure of it at
every start, because the list comes from environments and settings: a socket can be used through a read-only folder.
That the account of the host process may use one is no way out of a sandbox, so the doctor only warns of it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moonpool.core.errors import HostUnfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from moonpool.sandboxes.base import ImageSpec

_SYSTEM: Final = (
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/k3s/containerd/containerd.sock",
)
_OF_USER: Final = ("docker.sock", "podman/podman.sock")  # below XDG_RUNTIME_DIR


def engine_sockets(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Those that exist on this machine, each once."""
    runtime_dir = environ.get("XDG_RUNTIME_DIR")
    names = [*_SYSTEM, *(f"{runtime_dir}/{name}" for name in _OF_USER if runtime_dir)]
    if (host := environ.get("DOCKER_HOST", "")).startswith("unix://"):
        names.append(host.removeprefix("unix://"))
    return tuple(dict.fromkeys(path.resolve() for path in map(Path, names) if _is_socket(path)))


def refuse_shown(image: ImageSpec, environ: Mapping[str, str]) -> None:
    """Raise HostUnfitError if a folder that sandboxes are shown is, or holds, the socket of a container engine."""
    shown = (Path("/usr"), image.guest, *image.binds)
    for path in engine_sockets(environ):
        for folder in shown:
            if path.is_relative_to(folder.resolve()):
                raise HostUnfitError(
                    (
                        f"sandboxes would be shown {folder}, which holds {path}: whoever can use that socket is root "
                        "here; move the socket, or take the folder out of the environment",
                    )
                )


def usable(sockets: Iterable[Path]) -> tuple[Path, ...]:
    """Those that this process may use, unless it is root, which needs none of them."""
    if os.geteuid() == 0:
        return ()
    return tuple(path for path in sockets if os.access(path, os.W_OK))


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
