"""Files that an administrator installs on a machine that cannot isolate code, or only partly.

They are the files of `packaging/`, which are not part of an installed Moonpool; a test compares them. `moonpool doctor`
prints those that the missing features require.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

APPARMOR_PROFILE: Final = """\
# AppArmor profile of Moonpool's launcher, a private copy of bwrap: it and what it starts may create user namespaces
# with capabilities inside. It confines nothing; the isolation is the launcher's own. Written by install-launcher.sh.
abi <abi/4.0>,
include <tunables/global>

profile moonpool-launcher /usr/lib/moonpool/launcher flags=(unconfined) {
  userns,

  include if exists <local/moonpool-launcher>
}
"""

SYSTEMD_UNIT: Final = """\
# Moonpool as a service, with delegated control groups. Printed by `moonpool doctor`; lines in <> are yours to fill in.
# What must NOT be here, because it covers /proc or forbids what sandboxes are made of: RestrictNamespaces=,
# PrivateUsers=, ProtectProc=, ProtectKernelTunables=, and a SystemCallFilter= without @mount.
[Unit]
Description=Moonpool
After=network.target

[Service]
User=<an account of its own>
ExecStart=<the command to run>
Delegate=cpu memory pids
DelegateSubgroup=supervisor
OOMPolicy=continue
MemoryMax=75%
MemorySwapMax=0
TasksMax=8192
KillMode=mixed
TimeoutStopSec=30

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A file to install, why, and how."""

    why: str
    path: str
    text: str
    to_do: str  # how to activate it after installation


APPARMOR: Final = Remedy(
    why="to let Moonpool's launcher make namespaces",
    path="/etc/apparmor.d/moonpool-launcher",
    text=APPARMOR_PROFILE,
    to_do='sudo install -D -m 0755 "$(command -v bwrap)" /usr/lib/moonpool/launcher && '
    "sudo apparmor_parser --replace /etc/apparmor.d/moonpool-launcher",
)
SYSTEMD: Final = Remedy(
    why="limits hold for each process only (rlimits-only); to bound whole sandboxes",
    path="/etc/systemd/system/moonpool.service",
    text=SYSTEMD_UNIT,
    to_do="fill in the lines with <…>; sudo systemctl daemon-reload && sudo systemctl start moonpool. "
    "This is for a Moonpool that runs as a service; commands that you type keep the limits for each process",
)


def remedies_of(missing: Iterable[str], limits_mode: str) -> tuple[Remedy, ...]:
    """The files that provide the `missing` features, or limits for whole sandboxes where only processes have some."""
    sentences = tuple(missing)
    wanted: list[Remedy] = []
    if any("AppArmor" in sentence for sentence in sentences):
        wanted.append(APPARMOR)
    if limits_mode == "rlimits-only" or any("limits=cgroup2" in sentence for sentence in sentences):
        wanted.append(SYSTEMD)
    return tuple(wanted)
