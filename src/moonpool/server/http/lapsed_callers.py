"""Ends what callers still have open whose credential no longer counts: sessions, streams, executions.

A request is refused by its credential alone; what it began earlier goes on by itself, so it is looked for. Each replica
does this for its own.

INVARIANT: what a caller has open ends within a second after its key was revoked or has expired, or its organisation was
disabled. If the database cannot be asked nothing is known of that, and nothing ends; new requests are refused then.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from moonpool.store.database.base import DatabaseError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
    from collections.abc import Set as AbstractSet

    from moonpool.server.http.principal_servers import PrincipalServers

LOOK_EVERY_S: Final = 0.2
"""With the 0.8 s for which a good key is remembered this is a second."""
_log = logging.getLogger(__name__)

Owner: TypeAlias = tuple[str, str]
"""Organisation and principal."""
FindLapsed: TypeAlias = "Callable[[Collection[Owner]], Awaitable[Collection[Owner]]]"
"""Those of these callers whose credential no longer counts; raises DatabaseError."""


class OpenWork(Protocol):
    """What callers have open: sessions, transfers of files, executions by one call."""

    @property
    def owners(self) -> AbstractSet[Owner]: ...
    def end_owner(self, organisation: str, principal: str, /) -> None: ...


@asynccontextmanager
async def lapsed_callers_ended(
    servers: PrincipalServers, works: Sequence[OpenWork], find: FindLapsed
) -> AsyncGenerator[None]:
    """Look for them inside the block."""
    looking = asyncio.create_task(_look(servers, works, find))
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def _look(servers: PrincipalServers, works: Sequence[OpenWork], find: FindLapsed) -> None:
    could_ask = True
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        owners = servers.owners.union(*(one.owners for one in works))
        if not owners:
            continue
        try:
            lapsed = await find(owners)
        except DatabaseError as error:
            if could_ask:
                _log.error("whether keys were revoked cannot be asked: %s", error)
            could_ask = False
            continue
        except Exception:  # noqa: BLE001  a bug must not end the looking
            _log.exception("a bug while looking for revoked keys")
            continue
        could_ask = True
        for organisation, principal in lapsed:
            _log.info("the credential of %s of %s counts no more: what it has open ends", principal, organisation)
            servers.end_caller(organisation, principal)
            for one in works:
                one.end_owner(organisation, principal)
