"""The authenticator of OAuth tokens and the metadata that leads to them, from settings."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moonpool.oauth.addresses import canonical
from moonpool.server.http.authentication.issuer_file import read_issuers
from moonpool.server.http.authentication.metadata import ResourceMetadata
from moonpool.server.http.authentication.resource import Resource, checked_public_url
from moonpool.server.http.authentication.tokens import TokenAuthenticator

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAuthentication:
    """What a service with OAuth issuers has."""

    authenticator: TokenAuthenticator
    metadata: ResourceMetadata


async def token_authentication(
    settings: Settings, listens_at: tuple[str, ...], *, is_open: Callable[[str], Awaitable[bool]]
) -> TokenAuthentication | None:
    """None where no issuers are configured. Raises ConfigError. `is_open`: of an organisation, by its id.

    `listens_at` are the origins of the addresses that are listened on; they count where no `public_url` is set.
    SECURITY: what a request says is its host never counts.
    """
    origins = (checked_public_url(settings.public_url),) if settings.public_url else tuple(map(canonical, listens_at))
    if settings.oauth_issuers is None:
        return None
    issuers, resource = await asyncio.to_thread(read_issuers, settings.oauth_issuers), Resource(origins)
    return TokenAuthentication(
        authenticator=TokenAuthenticator(issuers, resource, is_open=is_open),
        metadata=ResourceMetadata(issuers, resource),
    )
