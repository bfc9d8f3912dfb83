"""Sends what is owed: one signed POST at a time for each delivery, until it is taken or given up.

SECURITY: callers name the addresses. A name is resolved once and the address that was checked is dialled; it is of the
public internet, or listed by the operator (`webhook_private_hosts`). TLS is verified, no redirect is followed, no proxy
is used, nothing of an answer but its bounded head is read, and nobody is told what the receiver said. Receivers and
name servers that do not answer hold up their own organisation's webhooks only.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import httpx2

from moonpool.core.errors import MoonpoolError
from moonpool.core.version import VERSION
from moonpool.features.webhooks.model import signed_headers
from moonpool.network.destinations import Destinations
from moonpool.network.public_http import PublicTransport
from moonpool.network.resolving import Resolver, SessionResolver
from moonpool.store.database.base import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moonpool.features.webhooks.model import Delivery, PrivateHosts
    from moonpool.features.webhooks.service import WebhookSecrets
    from moonpool.features.webhooks.table import WebhookTable

ATTEMPT_S: Final = 15.0
"""One attempt in all; shorter than a claim lasts."""
POLL_S: float = 2.0
"""How often it is looked for what is due, beside what is told (`Deliverer.wake`)."""
AT_ONCE_MAX: Final = 8
OF_ONE_MAX: Final = 4
"""Of one organisation at the same time."""
ANSWER_BYTES_MAX: Final = 16 * 1024
"""Of an answer's head, all that comes before it included."""
_log = logging.getLogger(__name__)


def webhook_destinations(listed: PrivateHosts) -> Destinations:
    """Addresses that webhooks may be sent to."""

    def is_listed(host: str, address: str) -> bool:
        return listed.allows_name(host) or listed.allows_address(address)

    return Destinations(is_listed=is_listed)


class Deliverer:
    """Of one process."""

    def __init__(
        self,
        table: WebhookTable,
        secrets: WebhookSecrets,
        body_of: Callable[[str, str], Awaitable[bytes | None]],
        destinations: Destinations,
    ) -> None:
        """`body_of` gives what is sent of an organisation's execution; None: it is kept no more."""
        self._table, self._secrets, self._body_of, self._destinations = table, secrets, body_of, destinations
        self._news = asyncio.Event()
        self._sending: set[asyncio.Task[None]] = set()
        self._busy: Counter[str] = Counter()  # by organisation
        self._resolvers: WeakValueDictionary[str, SessionResolver] = WeakValueDictionary()  # likewise, while in use

    def wake(self) -> None:
        """Something is owed now."""
        self._news.set()

    async def run(self) -> None:
        """Deliver until cancelled; what is being sent then is sent again by whoever claims it next."""
        try:
            while True:
                self._news.clear()
                try:
                    await self._begin_due()
                except DatabaseError as error:
                    _log.warning("which webhooks are due is not known: %s", error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        await self._news.wait()
        finally:
            for task in self._sending:
                task.cancel()
            await asyncio.gather(*self._sending, return_exceptions=True)

    async def _begin_due(self) -> None:
        room = AT_ONCE_MAX - len(self._sending)
        if room <= 0 or await self._table.is_empty():
            return
        for delivery in await self._table.claim(room, self._busy, OF_ONE_MAX):
            task = asyncio.create_task(self._deliver(delivery))
            self._sending.add(task)
            self._busy[delivery.organisation] += 1
            task.add_done_callback(lambda done, of=delivery.organisation: self._done(done, of))

    def _done(self, task: asyncio.Task[None], organisation: str) -> None:
        self._sending.discard(task)
        self._busy[organisation] -= 1
        if not self._busy[organisation]:
            del self._busy[organisation]
        self._news.set()  # there is room for another

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            body = await self._body_of(delivery.organisation, delivery.trace_id)
            is_delivered = body is None or await self._is_taken(delivery, body)
            await self._table.settle(delivery, is_delivered=is_delivered)
        except MoonpoolError as error:  # the claim ends, and it is tried again
            _log.warning("the webhook %s could not be settled: %s", delivery.delivery_id, error)
        except Exception:  # noqa: BLE001  the others are delivered all the same
            _log.exception("a bug of Moonpool in the delivery of the webhook %s", delivery.delivery_id)

    async def _is_taken(self, delivery: Delivery, body: bytes) -> bool:
        secret = await self._secrets.secret(delivery.organisation)
        headers = {
            "content-type": "application/json",
            "user-agent": f"moonpool/{VERSION}",
            **signed_headers(secret, delivery.delivery_id, int(time.time()), body),
        }
        try:
            async with asyncio.timeout(ATTEMPT_S):
                status = await self._post(delivery, body, headers)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, TimeoutError) as error:
            # SECURITY: the address may hold what is secret, so it is not logged.
            _log.info("the webhook %s was not delivered: %s", delivery.delivery_id, type(error).__name__)
            return False
        if not 200 <= status < 300:
            _log.info("the webhook %s was answered with %s", delivery.delivery_id, status)
            return False
        return True

    async def _post(self, delivery: Delivery, body: bytes, headers: dict[str, str]) -> int:
        transport = PublicTransport(
            limits=httpx2.Limits(max_connections=1, max_keepalive_connections=0),
            destinations=self._destinations_of(delivery.organisation),
            answer_bytes_max=ANSWER_BYTES_MAX,
        )
        async with (
            httpx2.AsyncClient(
                transport=transport, follow_redirects=False, timeout=ATTEMPT_S, trust_env=False
            ) as client,
            client.stream("POST", delivery.url, content=body, headers=headers) as response,
        ):
            return response.status_code

    def _destinations_of(self, organisation: str) -> Destinations:
        shared = self._destinations.resolve
        if not isinstance(shared, Resolver):
            return self._destinations
        if (resolver := self._resolvers.get(organisation)) is None:  # it is there as long as one of its threads is
            resolver = self._resolvers[organisation] = SessionResolver(shared)
        return replace(self._destinations, resolve=resolver)
