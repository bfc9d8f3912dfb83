"""All probes, in the order in which a report shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.doctor.probes.bash_attacks import BASH
from moonpool.doctor.probes.channel import CHANNEL
from moonpool.doctor.probes.companions import COMPANIONS
from moonpool.doctor.probes.credentials import CREDENTIALS
from moonpool.doctor.probes.files import FILES
from moonpool.doctor.probes.folders import FOLDERS
from moonpool.doctor.probes.host_judged import SCENES
from moonpool.doctor.probes.identity import IDENTITY
from moonpool.doctor.probes.kernel_surface import SURFACE
from moonpool.doctor.probes.limits import LIMITS
from moonpool.doctor.probes.network import NETWORK
from moonpool.doctor.probes.node_attacks import NODE
from moonpool.doctor.probes.noisy_neighbour import CROWDING
from moonpool.doctor.probes.processes import PROCESSES
from moonpool.doctor.probes.residue import RESIDUE
from moonpool.doctor.probes.way_out import WAY_OUT

if TYPE_CHECKING:
    from moonpool.doctor.probes.record import AnyProbe

CATALOGUE: Final[tuple[AnyProbe, ...]] = (
    *FILES, *IDENTITY, *PROCESSES, *SURFACE, *NETWORK, *LIMITS, *RESIDUE, *CHANNEL, *SCENES,
    *CROWDING, *NODE, *BASH, *COMPANIONS, *WAY_OUT, *CREDENTIALS, *FOLDERS,
)  # fmt: skip

QUICK: Final[tuple[AnyProbe, ...]] = tuple(probe for probe in CATALOGUE if probe.quick)
"""The quick selection: all but attacks that fill something up, wait for something or walk through all of `/usr`."""
