"""Who sends a request over HTTP, and the seam of what finds that out.

Several authenticators are asked in turn (`server.http.authentication`); a credential that none of them knows is a
failed authentication. Everything below knows only the `HttpCaller`.

SECURITY: a caller is made from a checked credential and never from anything else of a request. Its `organisation` is
the id of the only tenant that the request can reach, `(organisation, principal)` the owner of every handle it makes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.features.caller_limits.model import NO_LIMITS, CallerLimits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from moonpool.core.scopes import Scope


class AuthenticationError(MoonpoolError):
    """A credential is missing, wrong, expired or revoked: 401. The message, Baponi's, does not say which."""

    code = "authentication_failed"
    fault = Fault.CALLER

    def __init__(self) -> None:
        super().__init__("Invalid or revoked API key.")


class ScopeError(MoonpoolError):
    """The credential is good, but not for this: 403. Nothing was done."""

    code = "scope_missing"
    fault = Fault.CALLER

    def __init__(self, scope: Scope) -> None:
        super().__init__(f"this credential lacks the scope {scope}; use one that has it, or ask its organisation")
        self.scope: Scope = scope


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCaller:
    """Whoever sent a request, as its credential says."""

    organisation: str  # the id of its tenant
    principal: str  # key:<id>, user:<issuer>#<subject>, client:<issuer>#<id> or local:<user>
    scopes: frozenset[Scope]
    profile: str | None = None  # the only one that this credential may use; None: the one that the path names
    roles: tuple[str, ...] = ()
    is_person: bool = False
    """A login of a user, or the host's terminal: it may answer questions that only a person may answer."""
    client_id: str | None = None  # of the OAuth client
    gives_consents: bool = False
    """A login of a user by a client that the operator trusts with consents of its users to other clients."""
    limits: CallerLimits = NO_LIMITS  # its own
    is_terminal: bool = False
    """A command of the service's own user, through its socket (`store.service_socket`)."""
    configuration_id: str | None = None
    """The sandbox configuration of its key; None: its organisation's default (`features.sandbox_configurations`)."""
    workspace_thread: str | None = None  # of its key: what tools of a workspace work on
    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, hash=False)
    """What its key gives code beside the configuration's. SECURITY: never logged, never answered."""

    def require(self, scope: Scope) -> None:
        """Raises ScopeError without it."""
        if scope not in self.scopes:
            raise ScopeError(scope)


class Authenticator(Protocol):
    """Knows one kind of credential."""

    async def authenticate(self, credential: str, /) -> HttpCaller | None:
        """The caller with this credential, which is what follows `Bearer `; None: it is not one of this kind.

        Raises AuthenticationError for one of this kind that is wrong, expired or revoked.
        """
        ...


async def authenticated(credential: str, authenticators: Sequence[Authenticator]) -> HttpCaller:
    """The caller with this credential. Raises AuthenticationError."""
    for authenticator in authenticators:
        if (caller := await authenticator.authenticate(credential)) is not None:
            return caller
    raise AuthenticationError
