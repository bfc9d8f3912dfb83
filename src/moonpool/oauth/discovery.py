"""Finds the issuer of tokens for a server, and the scopes to request.

First the metadata of the protected resource (RFC 9728), at the address in the challenge or at the well-known ones; it
names authorization servers, whose metadata must name the same issuer. A server without resource metadata follows
revision 2025-03-26: its own origin is the authorization server, with metadata or default paths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.core.phrases import said
from moonpool.oauth.addresses import (
    canonical,
    check_address,
    covers,
    issuer_metadata_addresses,
    origin,
    resource_metadata_addresses,
    same_issuer,
)
from moonpool.oauth.errors import OAuthError
from moonpool.oauth.metadata import IssuerMetadata, default_issuer, read_issuer, read_resource

if TYPE_CHECKING:
    from moonpool.oauth.challenge import Challenge
    from moonpool.oauth.metadata import ResourceMetadata
    from moonpool.oauth.wire import LoginHttp


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """What a login needs to know about a server."""

    server_url: str
    resource: str
    issuer: IssuerMetadata
    scopes: tuple[str, ...] | None = None  # None: request none


async def discover(
    http: LoginHttp,
    server_url: str,
    challenge: Challenge,
    *,
    wanted_issuer: str = "",
    why_wanted: str = "which is configured",
    machine: bool = False,
) -> Discovery:
    """Ask the server and its authorization server. Raises OAuthError, also if that is not `wanted_issuer`."""
    check_address(server_url, "URL of the server", server_url=server_url)
    metadata = await _resource(http, server_url, challenge)
    if metadata is None:
        issuer = await _legacy_issuer(http, server_url)
        if wanted_issuer and not same_issuer(issuer.issuer, wanted_issuer):
            raise _moved("no authorization server", wanted_issuer, why_wanted)
        return Discovery(server_url=server_url, resource=canonical(server_url), issuer=issuer, scopes=challenge.scopes)
    if not covers(metadata.resource, server_url):
        raise OAuthError(
            f"the metadata of the server is for another resource, {said(metadata.resource, 200)!r}; "
            "no credential is asked for it"
        )
    chosen = _chosen(metadata.issuers, wanted_issuer, why_wanted)
    issuer = await _issuer(http, chosen, server_url, machine=machine)
    scopes = challenge.scopes if challenge.scopes is not None else metadata.scopes
    return Discovery(server_url=server_url, resource=metadata.resource, issuer=issuer, scopes=scopes)


async def _resource(http: LoginHttp, server_url: str, challenge: Challenge) -> ResourceMetadata | None:
    named = challenge.resource_metadata
    if named:
        check_address(named, "address of the server's metadata", server_url=server_url)
    for address in resource_metadata_addresses(server_url, named):
        answer = await http.get(address)
        if answer.status == 200 and answer.body is not None:
            return read_resource(answer.body, server_url=server_url)
        if answer.status >= 500 or answer.status == 429 or named:
            # SECURITY: an error does not show that there is no metadata, so it must not lead to the older revision's
            # rules.
            raise OAuthError(f"the server's metadata cannot be read: HTTP {answer.status} at {said(address, 200)}")
    return None


def _chosen(issuers: tuple[str, ...], wanted: str, why_wanted: str) -> str:
    if not wanted:
        return issuers[0]
    for issuer in issuers:
        if same_issuer(issuer, wanted):
            return issuer
    raise _moved(", ".join(issuers), wanted, why_wanted)


def _moved(named: str, wanted: str, why_wanted: str) -> OAuthError:
    return OAuthError(f"the server names {said(named, 300)}, but not {said(wanted, 200)}, {why_wanted}")


async def _issuer(http: LoginHttp, issuer: str, server_url: str, *, machine: bool) -> IssuerMetadata:
    found = await issuer_metadata(http, issuer, server_url)
    if found is None:
        raise OAuthError(f"the authorization server {said(issuer, 200)} publishes no metadata")
    if machine:
        return found  # no person is redirected, so there is no code to protect
    if not found.authorization_endpoint:
        raise OAuthError("the authorization server's metadata has no authorization_endpoint")
    if "S256" not in (found.pkce_methods or ()):
        raise OAuthError(
            f"the authorization server {said(issuer, 200)} does not offer PKCE with S256; not logging in there"
        )
    return found


async def _legacy_issuer(http: LoginHttp, server_url: str) -> IssuerMetadata:
    found = await issuer_metadata(http, origin(server_url), server_url)
    if found is None:
        return default_issuer(server_url)
    if found.pkce_methods is not None and "S256" not in found.pkce_methods:
        raise OAuthError("the server does not offer PKCE with S256; not logging in there")
    return found


async def issuer_metadata(http: LoginHttp, issuer: str, server_url: str) -> IssuerMetadata | None:
    """What the issuer publishes about itself; None if that is nothing. Raises OAuthError."""
    for address in issuer_metadata_addresses(issuer):
        answer = await http.get(address)
        if answer.status >= 500 or answer.status == 429:
            raise OAuthError(f"the authorization server's metadata cannot be read: HTTP {answer.status} at {address}")
        if answer.status != 200 or answer.body is None:
            continue
        found = read_issuer(answer.body, server_url=server_url)
        if not same_issuer(found.issuer, issuer):
            # SECURITY: otherwise one authorization server could make us send it another's codes.
            named = said(found.issuer, 200)
            raise OAuthError(
                f"the metadata of {said(issuer, 200)} names another issuer, {named!r}; not logging in there"
            )
        return found
    return None
