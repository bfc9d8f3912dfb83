"""All probes, in the order in which a report shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.runtime.probes.bash_attacks import BASH
from moonpool.runtime.probes.channel import CHANNEL
from moonpool.runtime.probes.companions import COMPANIONS
from moonpool.runtime.probes.crowding import CROWDING
from moonpool.runtime.probes.files import FILES
from moonpool.runtime.probes.identity import IDENTITY
from moonpool.runtime.probes.limits import LIMITS
from moonpool.runtime.probes.network import NETWORK
from moonpool.runtime.probes.node_attacks import NODE
from moonpool.runtime.probes.processes import PROCESSES
from moonpool.runtime.probes.residue import RESIDUE
from moonpool.runtime.probes.scenes import SCENES
from moonpool.runtime.probes.surface import SURFACE

if TYPE_CHECKING:
    from moonpool.runtime.probes.record import AnyProbe

CATALOGUE: Final[tuple[AnyProbe, ...]] = (
    *FILES, *IDENTITY, *PROCESSES, *SURFACE, *NETWORK, *LIMITS, *RESIDUE, *CHANNEL, *SCENES,
    *CROWDING, *NODE, *BASH, *COMPANIONS,
)  # fmt: skip

QUICK: Final[tuple[AnyProbe, ...]] = tuple(probe for probe in CATALOGUE if probe.quick)
"""What a person waits for: all but attacks that fill something up, wait for something or walk through all of `/usr`."""
