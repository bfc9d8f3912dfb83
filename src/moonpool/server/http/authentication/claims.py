"""What the claims of a verified token mean here: organisation, principal, scopes, roles, profile, person. Pure.

SECURITY: what is configured to come from a claim must be there; a token without it is refused, not given a default.
SECURITY: a token is a person's only if it is proven: it names a client and a subject that is not that client, has no
mark of a machine's token or of somebody who acts for the user (`act`), and has the claim that the configuration says
only users' tokens have.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from moonpool.core.schema_reading import value_at
from moonpool.server.http.authentication.access_tokens import (
    TokenRefusedError,
    audiences,
    client_of,
    granted_scopes,
    is_identifier,
)
from moonpool.server.http.authentication.issuer_file import AUTH_TIME, ClaimEntry
from moonpool.server.http.authentication.resource import PROFILE
from moonpool.server.http.callers import HttpCaller

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject, JsonValue
    from moonpool.server.http.authentication.issuer_file import IssuerEntry, PersonEntry
    from moonpool.server.http.authentication.resource import Resource

PRINCIPAL_CHARS_MAX: Final = 190
"""A little less than `bootstrap.caller_grants` takes, so that records may say more than the name."""
_ROLE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,63}", re.ASCII)
_ROLES_MAX: Final = 64
_MACHINE_GRANTS: Final = ("client-credentials", "client_credentials")
_MACHINE_USER: Final = "service-account-"


def caller_of(claims: JsonObject, entry: IssuerEntry, resource: Resource) -> HttpCaller:
    """The caller of a token whose signature, issuer and times were verified. Raises TokenRefusedError."""
    granted = granted_scopes(claims)
    limited_to = resource.profile_for(audiences(claims), entry.audiences)
    client, subject = client_of(claims), claims.get("sub")
    if subject is not None and not is_identifier(subject):
        raise TokenRefusedError("its subject has a name that cannot be shown")
    assert isinstance(subject, str | None)
    machine = _is_machine(claims, client, subject)
    if machine and client is None:
        raise TokenRefusedError("it names neither a user nor a client")
    principal = f"client:{entry.name}#{client}" if machine else f"user:{entry.name}#{subject}"
    if len(principal) > PRINCIPAL_CHARS_MAX:
        raise TokenRefusedError(f"the name of its user or client is too long ({len(principal)} characters)")
    is_person = not machine and client is not None and "act" not in claims and _is_proven(claims, entry.person)
    return HttpCaller(
        organisation=_one(claims, entry.organisation, "organisation"),
        principal=principal,
        scopes=frozenset(scope for name, scope in entry.scopes.named() if name in granted),
        profile=_profile(claims, entry, limited_to),
        roles=() if entry.roles is None else _roles(claims, entry.roles),
        is_person=is_person,
        client_id=client,
        gives_consents=is_person and client in entry.consent_clients,
    )


def _is_machine(claims: JsonObject, client: str | None, subject: str | None) -> bool:
    """Whether a client got the token for itself, as the issuers say it that are known to us."""
    user = claims.get("preferred_username")
    return (
        subject is None
        or subject in {client, f"{client}@clients"}
        or any(claims.get(name) in _MACHINE_GRANTS for name in ("gty", "grant_type"))
        or claims.get("idtyp") == "app"
        or (isinstance(user, str) and user.startswith(_MACHINE_USER))
    )


def _is_proven(claims: JsonObject, person: PersonEntry) -> bool:
    value = _at(claims, person.claim)
    if person.claim == AUTH_TIME:
        return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return not set(person.values).isdisjoint(_texts(value))


def _profile(claims: JsonObject, entry: IssuerEntry, limited_to: str | None) -> str | None:
    named = _one(claims, entry.profile, "profile") if entry.profile else limited_to
    if named is not None and not PROFILE.fullmatch(named):
        raise TokenRefusedError("its profile has a name that no profile can have")
    if limited_to not in (None, named):
        raise TokenRefusedError("its audience and its claims name different profiles")
    return named


def _roles(claims: JsonObject, rule: ClaimEntry) -> tuple[str, ...]:
    roles = dict.fromkeys(role for role in _mapped(claims, rule) if _ROLE.fullmatch(role))
    return tuple(roles)[:_ROLES_MAX]


def _one(claims: JsonObject, rule: str | ClaimEntry, what: str) -> str:
    if isinstance(rule, str):
        return rule
    named = set(_mapped(claims, rule))
    if len(named) != 1:
        raise TokenRefusedError(f"its claim {rule.claim!r} names {'no' if not named else 'more than one'} {what}")
    return named.pop()


def _mapped(claims: JsonObject, rule: ClaimEntry) -> tuple[str, ...]:
    texts = _texts(_at(claims, rule.claim))
    return tuple(rule.values[text] for text in texts if text in rule.values) if rule.values else texts


def _at(claims: JsonObject, claim: str) -> JsonValue:
    """A claim by its name, which may hold dots and slashes, or by a pointer, which begins with a slash."""
    return value_at(claims, claim) if claim.startswith("/") else claims.get(claim)


def _texts(value: JsonValue) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else [value]
    return tuple(one for one in listed if isinstance(one, str))
