"""Who may use the service: programs with a key, and users and clients of OAuth issuers, from settings."""

from __future__ import annotations

import ipaddress
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from moonpool.bootstrap.database import open_service_data
from moonpool.bootstrap.token_authentication import token_authentication
from moonpool.core.errors import ConfigError
from moonpool.features.caller_limits.table import QuotaTable
from moonpool.net.forwarded import trusted_networks
from moonpool.server.http.admission import Bearers
from moonpool.server.http.authentication.failures import ClientAddresses, FailedAuthentications
from moonpool.server.http.authentication.keys import KeyAuthenticator

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
    from pathlib import Path

    from starlette.routing import BaseRoute

    from moonpool.bootstrap.database import ServiceData
    from moonpool.features.caller_limits.model import CallerLimits
    from moonpool.features.caller_limits.table import QuotaStore
    from moonpool.features.consents.service import UserConsents
    from moonpool.features.servers.service import OwnServers
    from moonpool.server.http.admission import Admission
    from moonpool.server.http.lapsed_callers import FindLapsed, Owner
    from moonpool.server.http.request_limits import Names
    from moonpool.settings import Settings
    from moonpool.store.database.base import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """Who is admitted, what anybody may read, and what users agreed to."""

    admission: Admission
    public: Sequence[BaseRoute] = ()
    consents: UserConsents | None = None
    servers: OwnServers | None = None
    database: Database | None = None
    opened: ServiceData | None = None  # all of it
    quotas: QuotaStore | None = None
    limits_of: Callable[[str], Awaitable[CallerLimits]] | None = None  # of an organisation
    find_lapsed: FindLapsed | None = None
    has_no_keys: bool = False  # and there is no issuer either, so nobody can use it


@asynccontextmanager
async def open_admission(settings: Settings, state: Path, names: Names, origin: str) -> AsyncGenerator[Admitted]:
    """Opens the database below `state`. `origin` is that of the address listened on, one of several in `names`.

    Raises ConfigError, DatabaseError.
    """
    address = ipaddress.ip_address(urlsplit(origin).hostname or "")
    if settings.oauth_issuers is not None and not settings.public_url and not address.is_loopback:
        raise ConfigError(
            f"oauth_issuers needs public_url here, because others reach {address} by a name that tokens must be for; "
            "set MOONPOOL_PUBLIC_URL=https://moonpool.example.com"
        )
    failed = FailedAuthentications()
    addresses = ClientAddresses(trusted_networks(settings.trusted_proxies))
    async with open_service_data(settings, state, os.environ) as data:
        keys = KeyAuthenticator(data.keys)
        admitted = partial(
            Admitted,
            consents=data.consents,
            servers=data.servers,
            database=data.database,
            opened=data,
            quotas=QuotaTable(data.database),
            limits_of=data.organisations.limits_of,
            find_lapsed=partial(_lapsed, data),
        )
        listens_at = (origin, *sorted(names.origins - {origin}))
        tokens = await token_authentication(settings, listens_at, is_open=data.organisations.is_open)
        if tokens is None:
            admission = Bearers([keys], failed=failed, addresses=addresses)
            yield admitted(admission=admission, has_no_keys=await data.keys.is_empty())
            return
        bearers = Bearers([keys, tokens.authenticator], tokens.metadata.challenge, failed=failed, addresses=addresses)
        try:
            yield admitted(admission=bearers, public=tokens.metadata.routes())
        finally:
            await tokens.authenticator.close()


async def _lapsed(data: ServiceData, owners: Collection[Owner]) -> set[Owner]:
    """See `FindLapsed`. Tokens are not looked at: one that is given back there ends with its `exp`."""
    keys = {
        principal.removeprefix("key:"): (organisation, principal)
        for organisation, principal in owners
        if principal.startswith("key:")
    }
    lapsed: set[Owner] = {keys[key_id] for key_id in await data.keys.lapsed(keys)} if keys else set()
    by_credential = [owner for owner in owners if not owner[1].startswith("local:")]  # others come through the socket
    shut = {one for one in {owner[0] for owner in by_credential} if not await data.organisations.is_open(one)}
    return lapsed | {owner for owner in by_credential if owner[0] in shut}
