"""A sandbox configuration: what a key's code runs with. Pure.

A key, a user or a client without one of its own has the organisation's default configuration; an organisation without
any has `BUILT_IN`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, get_args

from moonpool.core.errors import Fault, InputError, MoonpoolError
from moonpool.core.variables import check_variables
from moonpool.features.storage.model import TreeName

if TYPE_CHECKING:
    from collections.abc import Mapping

Language: TypeAlias = Literal["python", "node", "bash"]
LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)
TIMEOUT_S_MAX: Final = 3600
TIMEOUT_S: Final = 60
CONFIGURATIONS_MAX: Final = 100
"""Of one organisation."""
DOMAINS_MAX: Final = 100
VOLUMES_MAX: Final = 16
_MEMORY_BYTES_MIN: Final = 32 * 1024**2
"""With less no interpreter starts."""
_COUNT_MAX: Final = 2**53
_ENVIRONMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)


def is_name(text: str) -> bool:
    """Whether a configuration can have this name; no database is asked for another (PostgreSQL refuses NUL)."""
    return _NAME.fullmatch(text) is not None


class UnknownConfigurationError(MoonpoolError):
    """There is no such sandbox configuration in this organisation (HTTP 404)."""

    code = "configuration_unknown"
    fault = Fault.CALLER

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is no sandbox configuration {name[:80]!r} of this organisation; `moonpool sandboxes list` or GET "
            "/v1/admin/sandboxes shows those"
        )


class ConfigurationUsedError(MoonpoolError):
    """It cannot be done as things are: keys use the configuration, or there is one of this name (HTTP 409)."""

    code = "configuration_conflict"
    fault = Fault.CALLER


class ConfigurationLostError(MoonpoolError):
    """The configuration that a key was made with is not there. Nothing was started."""

    code = "configuration_lost"
    fault = Fault.CALLER

    def __init__(self) -> None:
        super().__init__("the sandbox configuration of this key is not there any more; make another key")


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeMount:
    """A volume of the organisation that sandboxes see at `/data/<slug>`."""

    slug: str
    writable: bool = False

    def __post_init__(self) -> None:
        TreeName(kind="volume", name=self.slug)


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
        if not is_name(self.name):
            raise InputError(
                f"{self.name[:80]!r} cannot be a configuration's name; use 1 to 63 of a-z, 0-9, - and _, the first "
                "of a-z or 0-9"
            )
        if self.environment is not None and not _ENVIRONMENT.fullmatch(self.environment):
            raise InputError(f"{self.environment[:80]!r} cannot be an environment's name")
        if self.language not in LANGUAGES:
            raise InputError(f"the language must be {', '.join(LANGUAGES)}, not {str(self.language)[:40]!r}")
        if not 1 <= self.timeout_s_max <= TIMEOUT_S_MAX or not 1 <= self.timeout_s <= self.timeout_s_max:
            raise InputError(f"the timeout must be 1 to {TIMEOUT_S_MAX} s, and the default at most the greatest")
        self._check_limits()
        check_variables(self.variables)
        if self.network is not None and len(self.network) > DOMAINS_MAX:
            raise InputError(f"a configuration names at most {DOMAINS_MAX} domains")
        if len(self.volumes) > VOLUMES_MAX or len({one.slug for one in self.volumes}) != len(self.volumes):
            raise InputError(f"a configuration has at most {VOLUMES_MAX} volumes, each once")

    def _check_limits(self) -> None:
        least = {"memory_bytes": _MEMORY_BYTES_MIN, "cpu_cores": 0.01, "cpu_s": 1, "disk_bytes": 1, "processes": 1}
        for name, lowest in least.items():
            value: float | None = getattr(self, name)
            if value is not None and not lowest <= value <= _COUNT_MAX:
                raise InputError(f"{name} must be at least {lowest:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredConfiguration:
    """One as it is stored. SECURITY: its variables are sealed; only their names may be shown."""

    organisation_id: str
    configuration: SandboxConfiguration  # without its variables
    variable_names: tuple[str, ...] = ()
    sealed: str = field(default="", repr=False)  # empty: it has no variables

    @property
    def place(self) -> str:
        """What its variables are sealed for: nobody moves them to another organisation or configuration."""
        return f"{self.organisation_id}/{self.configuration.configuration_id}"


BUILT_IN: Final = SandboxConfiguration(configuration_id="", name="default", is_default=True)
WITHOUT_KEYS: Final = replace(BUILT_IN, has_storage=True)
"""What a service without authentication runs code with: nobody has configured anything, and threads can be used."""


class ConfiguredCaller(Protocol):
    """Who calls (`moonpool.server.http.callers.HttpCaller`)."""

    @property
    def organisation(self) -> str: ...
    @property
    def configuration_id(self) -> str | None: ...


class Configured(Protocol):
    """What a caller's code runs with."""

    async def configuration_of(self, caller: ConfiguredCaller, /) -> SandboxConfiguration:
        """Its own, else its organisation's default, else `BUILT_IN`. A change counts within a second everywhere.

        Raises ConfigurationLostError, DatabaseError, SecretStoreError.
        """
        ...


class AlwaysConfigured:
    """The same for everybody: a service without authentication."""

    def __init__(self, configuration: SandboxConfiguration = WITHOUT_KEYS) -> None:
        self._configuration = configuration

    async def configuration_of(self, caller: ConfiguredCaller, /) -> SandboxConfiguration:
        del caller
        return self._configuration


def merged_variables(
    configuration: Mapping[str, str], key: Mapping[str, str], request: Mapping[str, str]
) -> dict[str, str]:
    """What code sees of three sources: a request's variable hides a key's, which hides a configuration's.

    Raises InputError where they are too many, or too large, together.
    """
    merged = {**configuration, **key, **request}
    check_variables(merged)
    return merged
