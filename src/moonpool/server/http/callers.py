"""Who calls over HTTP, and how a credential becomes a caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from moonpool.core.errors import Fault, MoonpoolError

Scope: TypeAlias = Literal["execute", "files", "approve", "admin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCaller:
    """Who sent a request, and what the credential is good for."""

    organisation: str  # the id of the tenant
    principal: str  # "key:<id>", "user:<issuer>#<subject>", "client:<issuer>#<id>", "local:<user>"
    scopes: frozenset[Scope]
    profile: str | None = None  # the only one this credential may use; None: the one that the path names
    roles: tuple[str, ...] = ()
    is_person: bool = False  # an OIDC login of a user, or the host's terminal; may answer human_only questions
    client_id: str | None = None  # of the OAuth client


class Authenticator(Protocol):
    """Turns a credential into a caller."""

    async def authenticate(self, credential: str, /) -> HttpCaller | None:
        """`credential` is what follows `Bearer `. None: not one of mine. Raises AuthenticationError."""
        ...


class AuthenticationError(MoonpoolError):
    """The credential is wrong, expired or revoked; it is not said which."""

    code = "unauthorized"
    fault = Fault.CALLER


class ScopeError(MoonpoolError):
    """The credential is valid, but not for this."""

    code = "insufficient_scope"
    fault = Fault.CALLER
