"""Authentication of every request: a bearer credential becomes an `HttpCaller`, or 401 with a challenge.

SECURITY: a credential counts in `Authorization` only, never in a URL. Without authentication (`--no-auth`) everybody
who reaches the address is one fixed caller; `bootstrap.service` allows that on loopback only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from moonpool.server.http.authentication.failures import ClientAddresses
from moonpool.server.http.authentication.metadata import key_challenge
from moonpool.server.http.callers import AuthenticationError, HttpCaller, authenticated
from moonpool.server.http.request_limits import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping, Sequence

    from moonpool.core.scopes import Scope
    from moonpool.server.http.authentication.failures import FailedAuthentications
    from moonpool.server.http.callers import Authenticator

    HttpScope = MutableMapping[str, Any]

CREDENTIAL_CHARS_MAX: Final = 16 * 1024
_CALLER: Final = "moonpool.caller"
_CHALLENGE: Final = "moonpool.challenge"


class Admission(Protocol):
    """Finds out who sends a request."""

    async def caller(self, scope: HttpScope, /) -> HttpCaller:
        """Raises AuthenticationError, RequestError."""
        ...

    def challenge(self, scope: HttpScope, missing: Scope | None = None, /) -> str:
        """`WWW-Authenticate` of a refusal, because of the credential or of a `missing` scope."""
        ...


@dataclass(frozen=True, slots=True)
class Everybody:
    """No authentication: everybody is this caller."""

    fixed: HttpCaller

    async def caller(self, scope: HttpScope, /) -> HttpCaller:
        del scope
        return self.fixed

    def challenge(self, scope: HttpScope, missing: Scope | None = None, /) -> str:
        return key_challenge(scope, missing)


@dataclass(frozen=True, slots=True)
class Bearers:
    """Callers with a bearer credential that one of the authenticators knows."""

    authenticators: Sequence[Authenticator]
    make_challenge: Callable[[HttpScope, Scope | None], str] = key_challenge
    failed: FailedAuthentications | None = None  # limits failed attempts by address
    addresses: ClientAddresses = field(default_factory=ClientAddresses)

    async def caller(self, scope: HttpScope, /) -> HttpCaller:
        """Raises AuthenticationError; RequestError for a header that is none (400), too many failures (429)."""
        credential, address = self._credential(scope), self.addresses.of(scope)
        if self.failed is not None and (wait_s := self.failed.refused_s(address)):
            # SECURITY: nothing is verified, so that nobody can go on guessing.
            headers = {"retry-after": str(math.ceil(wait_s))}
            raise RequestError(429, "too many failed authentications from this address; try again later", headers)
        try:
            return await authenticated(credential, self.authenticators)
        except AuthenticationError:
            if self.failed is not None:
                self.failed.note(address)
            raise

    @staticmethod
    def _credential(scope: HttpScope) -> str:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if not given:
            raise AuthenticationError
        scheme, _, credential = given[0].decode("latin-1").partition(" ")
        credential = credential.strip()
        usable = (
            credential and credential.isascii() and len(credential) <= CREDENTIAL_CHARS_MAX and " " not in credential
        )
        if len(given) != 1 or scheme.lower() != "bearer" or not usable:
            raise RequestError(400, "the header must be `Authorization: Bearer ` and a credential")
        return credential

    def challenge(self, scope: HttpScope, missing: Scope | None = None, /) -> str:
        return self.make_challenge(scope, missing)


def keep_caller(scope: HttpScope, caller: HttpCaller, admission: Admission | None = None) -> None:
    """Let what handles this request, and the log, know its caller; with `admission` also how to refuse it should its
    credential count no more.
    """
    scope[_CALLER] = caller
    if admission is not None:
        scope[_CHALLENGE] = admission.challenge


def known_caller(scope: HttpScope) -> HttpCaller | None:
    """The caller of a request, if it was admitted."""
    return scope.get(_CALLER)


def challenge_in(scope: HttpScope) -> str:
    """`WWW-Authenticate` for a request whose credential counts no more, though it was admitted."""
    challenge: Callable[[HttpScope], str] = scope.get(_CHALLENGE, key_challenge)
    return challenge(scope)


def caller_in(scope: HttpScope) -> HttpCaller:
    """The caller of a request that was admitted."""
    caller = scope[_CALLER]
    assert isinstance(caller, HttpCaller)
    return caller
