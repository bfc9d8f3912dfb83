"""The file of OAuth issuers (`MOONPOOL_OAUTH_ISSUERS`): whose tokens are taken, and what their claims mean. Read once.

SECURITY: an issuer speaks for organisations. With several issuers none may name just any organisation: each has one, or
a list of those its claim may name. Every key: docs/how-to/oauth.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from moonpool.configuration.toml_files import parse_toml, read_bytes
from moonpool.core.conversion import convert
from moonpool.oauth.addresses import canonical, check_address
from moonpool.oauth.challenge import scope_names
from moonpool.oauth.errors import OAuthError

if TYPE_CHECKING:
    from pathlib import Path

    from moonpool.core.scopes import Scope

AUTH_TIME: Final = "auth_time"
"""The claim that says when a user logged in (RFC 9068): tokens of machines do not have it."""
ISSUERS_MAX: Final = 64
_URL_CHARS_MAX: Final = 120

_Claim: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=256,
        extra={
            "need": "name the claim, or where it is, for example /realm_access/roles",
            "must": "names no claim; write its name, or a JSON pointer to it",
        },
    ),
]


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class ClaimEntry(_Entry, frozen=True):
    """Takes something from a claim; `values` says what its values mean, and others then mean nothing."""

    claim: _Claim
    values: dict[str, str] = {}


class PersonEntry(_Entry, frozen=True):
    """What proves that a token was given to a user who logged in."""

    claim: _Claim = AUTH_TIME
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.claim == AUTH_TIME) == bool(self.values):
            raise ValueError(
                f'"values" must list what the claim {self.claim!r} says of users, since other tokens may have it too'
                if not self.values
                else f'"{AUTH_TIME}" is a time and has no "values"; leave them out'
            )


class ScopesEntry(_Entry, frozen=True):
    """What the issuer calls our scopes; an empty name: its tokens never have that one."""

    execute: str = "execute"
    files: str = "files"
    approve: str = "approve"
    admin: str = "admin"

    def __post_init__(self) -> None:
        names = [name for name, _ in self.named()]
        if bad := [name for name in names if scope_names(name) != (name,)]:
            raise ValueError(f"{bad[0][:60]!r} cannot be the name of a scope; leave spaces and quotes out")
        if not names:
            raise ValueError("has no name at all, so no token would be good for anything; leave it out for our names")

    def named(self) -> tuple[tuple[str, Scope], ...]:
        """The issuer's name of each scope that its tokens may have."""
        named: tuple[tuple[str, Scope], ...] = (
            (self.execute, "execute"), (self.files, "files"), (self.approve, "approve"), (self.admin, "admin"),
        )  # fmt: skip
        return tuple(one for one in named if one[0])


class IssuerEntry(_Entry, frozen=True):
    """`[[issuer]]`."""

    url: Annotated[str, Meta(extra={"need": "write the issuer's address as its tokens have it in iss"})]
    organisation: Annotated[
        str | ClaimEntry,
        Meta(extra={"need": 'write the organisation of its users, or organisation = { claim = "org" }'}),
    ]
    profile: str | ClaimEntry = ""
    roles: ClaimEntry | None = None
    scopes: ScopesEntry = ScopesEntry()
    audiences: tuple[str, ...] = ()
    person: PersonEntry = PersonEntry()
    consent_clients: tuple[str, ...] = ()
    """Clients by which users may agree, at /v1/consents, that other clients use logins of Moonpool's."""

    def __post_init__(self) -> None:
        try:
            check_address(self.url, "issuer", server_url=self.url)
        except OAuthError as error:
            raise ValueError(f'"url": {error}') from None
        if urlsplit(self.url).query or len(self.url) > _URL_CHARS_MAX:
            raise ValueError(f'"url" must have no query and at most {_URL_CHARS_MAX} characters')
        if "" in (self.organisation, *self.audiences):
            raise ValueError('"organisation" and "audiences" must not be empty strings')

    @property
    def name(self) -> str:
        """The issuer in names of principals: one spelling of its address."""
        return canonical(self.url)


class IssuersDocument(_Entry, frozen=True):
    """The file."""

    issuer: Annotated[
        tuple[IssuerEntry, ...],
        Meta(
            min_length=1,
            max_length=ISSUERS_MAX,
            extra={
                "need": 'write [[issuer]] with url = "https://..."',
                "must": f"must be from 1 to {ISSUERS_MAX} tables [[issuer]]",
            },
        ),
    ]

    def __post_init__(self) -> None:
        names = [entry.name for entry in self.issuer]
        if twice := next((name for name in names if names.count(name) > 1), ""):
            raise ValueError(f"the issuer {twice} is there twice; remove one")
        for entry in self.issuer if len(self.issuer) > 1 else ():
            if isinstance(entry.organisation, ClaimEntry) and not entry.organisation.values:
                raise ValueError(
                    f"the issuer {entry.name} could name the organisations of the others; "
                    'list its own in "values" of "organisation"'
                )


def read_issuers(path: Path) -> tuple[IssuerEntry, ...]:
    """The issuers in the file. Raises ConfigError."""
    remedy = "name a TOML file with [[issuer]], or unset MOONPOOL_OAUTH_ISSUERS"
    document: dict[str, Any] = parse_toml(read_bytes(path, remedy), str(path))
    return convert(document, IssuersDocument, str(path), {"issuer": "issuer"}).issuer
