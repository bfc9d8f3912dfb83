"""Metadata of protected resources (RFC 9728) and authorization servers (RFC 8414, OpenID Connect). Pure.

Everything is untrusted: members of a wrong type count as absent, addresses are checked, unknown members are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moonpool.oauth.addresses import check_address, origin
from moonpool.oauth.challenge import scope_names
from moonpool.oauth.errors import OAuthError

if TYPE_CHECKING:
    from moonpool.core.json import JsonObject, JsonValue

_LIST_MAX: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceMetadata:
    """A protected resource: its identifier, its issuers, its scopes."""

    resource: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerMetadata:
    """An authorization server. None: not given."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    scopes: tuple[str, ...] | None = None
    token_auth_methods: tuple[str, ...] | None = None
    pkce_methods: tuple[str, ...] | None = None
    names_itself_in_answers: bool = False  # RFC 9207
    takes_client_documents: bool = False
    jwks_uri: str = ""  # not checked: a login needs no keys


def read_resource(raw: JsonObject, *, server_url: str) -> ResourceMetadata:
    """Parse resource metadata. Raises OAuthError."""
    resource, issuers = raw.get("resource"), _strings(raw.get("authorization_servers")) or ()
    if not isinstance(resource, str) or not resource:
        raise OAuthError("the metadata of the server does not say which resource it is for")
    if not issuers:
        raise OAuthError("the metadata of the server names no authorization server")
    for issuer in issuers:
        check_address(issuer, "authorization server", server_url=server_url)
    return ResourceMetadata(resource=resource, issuers=issuers, scopes=_scopes(raw.get("scopes_supported")))


def read_issuer(raw: JsonObject, *, server_url: str) -> IssuerMetadata:
    """Parse authorization server metadata. Raises OAuthError."""

    def endpoint(name: str, *, needed: bool = True) -> str:
        given = raw.get(name)
        if isinstance(given, str) and given:
            return check_address(given, name, server_url=server_url)
        if needed:
            raise OAuthError(f"the authorization server's metadata has no {name}")
        return ""

    issuer, keys = raw.get("issuer"), raw.get("jwks_uri")
    return IssuerMetadata(
        issuer=issuer if isinstance(issuer, str) else "",
        authorization_endpoint=endpoint("authorization_endpoint", needed=False),
        token_endpoint=endpoint("token_endpoint"),
        registration_endpoint=endpoint("registration_endpoint", needed=False),
        revocation_endpoint=endpoint("revocation_endpoint", needed=False),
        scopes=_scopes(raw.get("scopes_supported")),
        token_auth_methods=_strings(raw.get("token_endpoint_auth_methods_supported")),
        pkce_methods=_strings(raw.get("code_challenge_methods_supported")),
        names_itself_in_answers=raw.get("authorization_response_iss_parameter_supported") is True,
        takes_client_documents=raw.get("client_id_metadata_document_supported") is True,
        jwks_uri=keys if isinstance(keys, str) else "",
    )


def default_issuer(server_url: str) -> IssuerMetadata:
    """The default paths of an authorization server, for a server without metadata (2025-03-26)."""
    root = origin(server_url)
    return IssuerMetadata(
        issuer=root,
        authorization_endpoint=f"{root}/authorize",
        token_endpoint=f"{root}/token",
        registration_endpoint=f"{root}/register",
    )


def _strings(value: JsonValue) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    return tuple(item for item in value[:_LIST_MAX] if isinstance(item, str))


def _scopes(value: JsonValue) -> tuple[str, ...] | None:
    names = _strings(value)
    return None if names is None else scope_names(" ".join(names))
