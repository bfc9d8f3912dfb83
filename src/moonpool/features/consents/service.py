"""Giving, withdrawing and checking consents.

One that holds is remembered for `REMEMBERED_S`, so that a program of many calls asks the database once a second.
INVARIANT: no longer: a consent that was withdrawn anywhere holds nowhere after a second.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import IntegrityError

from moonpool.core.errors import InputError
from moonpool.core.hidden_characters import all_seen
from moonpool.features.consents.model import Consent
from moonpool.features.consents.table import ConsentTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from moonpool.store.database.base import Database

REMEMBERED_S: Final = 0.8
REMEMBERED_MAX: Final = 10_000
_NAMES_MAX: Final = {"user": 200, "client": 255, "server": 255}


class UserConsents:
    """Of one database. Used from one event loop. Every method raises DatabaseError."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table, self._clock, self._monotonic = ConsentTable(database), clock, monotonic
        self._held_at: dict[tuple[str, ...], float] = {}

    async def give(
        self,
        organisation_id: str,
        principal: str,
        client_id: str,
        server_id: str,
        server_digest: str,
        *,
        given_by: str,
    ) -> Consent:
        """Let it hold from now on. Raises InputError."""
        _check_names(user=principal, client=client_id, server=server_id)
        if not principal.startswith(("user:", "client:")):
            raise InputError(
                f"{principal[:80]!r} is nobody who calls by an OAuth client, so needs no consent; give user:ISSUER#NAME"
            )
        consent = Consent(
            organisation_id=organisation_id,
            principal=principal,
            client_id=client_id,
            server_id=server_id,
            server_digest=server_digest,
            given_by=given_by,
            given_at=self._clock(),
        )
        try:
            problem = await self._table.put(consent)
        except IntegrityError:
            raise InputError(
                f"there is no organisation {organisation_id[:80]!r}; `moonpool orgs list` shows all"
            ) from None
        if problem:
            raise InputError(problem)
        return consent

    async def withdraw(self, organisation_id: str, principal: str, client_id: str, server_id: str) -> bool:
        """End it: here at once, in other replicas within a second. False: there was none."""
        self._held_at.clear()
        found = await self._table.withdraw(organisation_id, principal, client_id, server_id, now=self._clock())
        self._held_at.clear()
        return found

    async def all(self, organisation_id: str | None = None, principal: str | None = None) -> Sequence[Consent]:
        return await self._table.all(organisation_id, principal)

    async def holds(
        self, organisation_id: str, principal: str, client_id: str, server_id: str, server_digest: str, /
    ) -> bool:
        """Whether it was given, for the server as it is configured now, and not withdrawn."""
        name, now = (organisation_id, principal, client_id, server_id, server_digest), self._monotonic()
        if 0 <= now - self._held_at.get(name, float("-inf")) < REMEMBERED_S:
            return True
        found = await self._table.find(organisation_id, principal, client_id, server_id)
        if found is None or found.server_digest != server_digest:
            self._held_at.pop(name, None)
            return False
        if len(self._held_at) >= REMEMBERED_MAX:
            self._held_at.clear()
        self._held_at[name] = now
        return True


def _check_names(**names: str) -> None:
    for what, name in names.items():
        if not 0 < len(name) <= _NAMES_MAX[what] or not all_seen(name):
            raise InputError(
                f"the name of the {what} must have from 1 to {_NAMES_MAX[what]} visible characters: {name[:80]!r}"
            )
