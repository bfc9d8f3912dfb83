"""Profiles: what a client of the service is offered. Each is a name, its tools, and the SDK's server over them.

One set of tools serves all connections of a caller; every connection has a server of its own over it, because the
SDK's server has state of a connection (the form that its user reads now). A profile only presents: it never relaxes
isolation, policy, redaction or records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.core.phrases import near_names
from moonpool.server.mcp.baponi import definitions as baponi
from moonpool.server.mcp.baponi.served import BaponiTools
from moonpool.server.mcp.codegen import tool_table as codegen
from moonpool.server.mcp.codegen.served import CodegenTools
from moonpool.server.mcp.direct.tools import DirectTools
from moonpool.server.mcp.server import build_server
from moonpool.server.mcp.tools import CodeTools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcp.server import Server

    from moonpool.server.mcp.client_requests import Bindings
    from moonpool.server.mcp.server import OwnServer, ServedTools
    from moonpool.server.mcp.stateless import StatelessTools
    from moonpool.server.mcp.tools import ServedApp

DEFAULT_PROFILE: Final = "code"
_NAME_CHARS_MAX: Final = 60


class UnknownProfileError(MoonpoolError):
    """There is no profile of this name here, or none that this credential may use (HTTP 404)."""

    code = "profile_unknown"
    fault = Fault.CALLER


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One profile. `make_tools` is called once for each caller, `make_server` for each of its connections; one that
    `is_stateless` has none: its tools answer each request, and there is no `/sse` for it.
    """

    name: str
    make_tools: Callable[[ServedApp, Bindings], ServedTools | OwnServer | StatelessTools]
    make_server: Callable[[ServedTools | OwnServer], Server[Any]] = field(default=build_server)
    is_stateless: bool = False
    body_bytes_max: int | None = None  # of one POST, where it is less than the service's


@dataclass(frozen=True, slots=True)
class Profiles:
    """The profiles of a service, by name."""

    by_name: Mapping[str, Profile]

    @classmethod
    def of(cls, profiles: Iterable[Profile]) -> Profiles:
        return cls({profile.name: profile for profile in profiles})

    def find(self, name: str) -> Profile:
        """The profile of this name. Raises UnknownProfileError."""
        if (profile := self.by_name.get(name)) is not None:
            return profile
        near = near_names([name[:_NAME_CHARS_MAX]], list(self.by_name))
        advice = f"did you mean {near[0]}?" if near else f"there is {', '.join(self.by_name)}"
        raise UnknownProfileError(f"there is no profile {name[:_NAME_CHARS_MAX]!r}; {advice}")


CODE: Final = Profile(name=DEFAULT_PROFILE, make_tools=CodeTools)
DIRECT: Final = Profile(name="direct", make_tools=DirectTools)
BAPONI: Final = Profile(
    name=baponi.PROFILE, make_tools=BaponiTools, is_stateless=True, body_bytes_max=baponi.BODY_BYTES_MAX
)
CODEGEN: Final = Profile(name=codegen.PROFILE, make_tools=CodegenTools)
PROFILES: Final = Profiles.of([CODE, DIRECT, BAPONI, CODEGEN])
