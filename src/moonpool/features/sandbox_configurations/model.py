"""A sandbox configuration: what a key's code runs with. Pure.

A key, a user or a client without one of its own has the organisation's default configuration; an organisation without
any has `BUILT_IN`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from moonpool.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

Language = Literal["python", "node", "bash"]
TIMEOUT_S_MAX: Final = 3600
TIMEOUT_S: Final = 60
CONFIGURATIONS_MAX: Final = 100
"""Of one organisation."""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeMount:
    """A volume of the organisation that sandboxes see at `/data/<slug>`."""

    slug: str
    writable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxConfiguration:
    """One configuration. None of a limit: as the service's settings say; more than they allow is refused."""

    configuration_id: str
    name: str
    environment: str | None = None
    language: Language = "python"  # when a request names none
    timeout_s: int = TIMEOUT_S  # when a request names none
    timeout_s_max: int = TIMEOUT_S_MAX
    memory_bytes: int | None = None
    cpu_cores: float | None = None
    cpu_s: int | None = None
    disk_bytes: int | None = None
    processes: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)  # sealed where they are stored
    network: tuple[str, ...] | None = None  # domains that code may reach; None: no network
    has_storage: bool = False  # threads can be used, and files downloaded
    volumes: tuple[VolumeMount, ...] = ()
    is_default: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(
                f"{self.name[:80]!r} cannot be a configuration's name; use 1 to 63 of a-z, 0-9, - and _, the first "
                "of a-z or 0-9"
            )
        if not 1 <= self.timeout_s_max <= TIMEOUT_S_MAX or not 1 <= self.timeout_s <= self.timeout_s_max:
            raise InputError(f"the timeout must be 1 to {TIMEOUT_S_MAX} s, and the default at most the greatest")


BUILT_IN: Final = SandboxConfiguration(configuration_id="", name="default", is_default=True)
