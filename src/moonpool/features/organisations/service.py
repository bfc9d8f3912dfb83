"""Making, disabling and finding organisations.

Where the machine has one uid for sandboxes (no root), all sandboxes share budgets of the Linux kernel, so there is one
tenant (`sandboxes.identity`), and a second organisation is refused here already, when it is made.
SECURITY: this is the early word only; a sandbox for a second tenant is refused by `sandboxes.identity` itself.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import IntegrityError

from moonpool.core.errors import InputError
from moonpool.features.caller_limits.model import NO_LIMITS, CallerLimits
from moonpool.features.organisations.model import (
    ORGANISATIONS_MAX,
    OneOrganisationError,
    Organisation,
    UnknownOrganisationError,
    check_id,
    check_name,
)
from moonpool.features.organisations.table import OrganisationTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from moonpool.store.database.base import Database

REMEMBERED_S: Final = 0.8
"""Less than the second in which other replicas notice that one was disabled."""


class Organisations:
    """Of one database. Every method raises DatabaseError."""

    def __init__(
        self,
        database: Database,
        *,
        several: bool,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`several`: this machine keeps the sandboxes of more than one apart."""
        self._table, self._clock, self._monotonic = OrganisationTable(database), clock, monotonic
        self._several = several
        self._open: dict[str, tuple[float, Organisation]] = {}

    async def create(self, organisation_id: str, name: str = "", limits: CallerLimits = NO_LIMITS) -> Organisation:
        """Raises InputError, OneOrganisationError."""
        made = await self._create(organisation_id, name, limits)
        if made is None:
            raise InputError(f"there is an organisation {organisation_id} already; choose another id")
        return made

    async def ensure(self, organisation_id: str) -> Organisation:
        """The organisation of this id, made if it is missing. Raises InputError, OneOrganisationError."""
        check_id(organisation_id)
        found = await self._table.find(organisation_id)
        if found is None:
            found = await self._create(organisation_id, "", NO_LIMITS) or await self._table.find(organisation_id)
        if found is None or found.disabled_at is not None:
            raise InputError(f"organisation {organisation_id} is disabled; `moonpool orgs enable {organisation_id}`")
        return found

    async def all(self) -> Sequence[Organisation]:
        return await self._table.all()

    async def is_open(self, organisation_id: str) -> bool:
        """Whether there is one of this id that is not disabled. That it is, is remembered for `REMEMBERED_S`."""
        return await self._find_open(organisation_id) is not None

    async def limits_of(self, organisation_id: str) -> CallerLimits:
        """What all its callers together may use; remembered likewise."""
        found = await self._find_open(organisation_id)
        return NO_LIMITS if found is None else found.limits

    async def limit(self, organisation_id: str, limits: CallerLimits) -> None:
        """Change that: here at once, in other replicas within a second. Raises InputError."""
        found = await self._table.limit(organisation_id, limits)
        self._open.clear()
        if not found:
            raise UnknownOrganisationError(organisation_id)

    async def _find_open(self, organisation_id: str) -> Organisation | None:
        now = self._monotonic()
        asked_at, known = self._open.get(organisation_id, (float("-inf"), None))
        if known is not None and 0 <= now - asked_at < REMEMBERED_S:
            return known
        self._open.pop(organisation_id, None)
        found = await self._table.find(organisation_id)
        if found is None or found.disabled_at is not None:
            return None
        self._open[organisation_id] = now, found
        return found

    async def disable(self, organisation_id: str) -> None:
        """Its credentials are refused from now on; other replicas notice within a second. Raises InputError."""
        await self._set_disabled(organisation_id, self._clock())

    async def enable(self, organisation_id: str) -> None:
        """Raises InputError, OneOrganisationError."""
        others = [one for one in await self._table.all() if one.disabled_at is None]
        if not self._several and any(one.organisation_id != organisation_id for one in others):
            raise self._one_only(others[0].organisation_id)
        await self._set_disabled(organisation_id, None)

    async def _create(self, organisation_id: str, name: str, limits: CallerLimits) -> Organisation | None:
        """None: there is one of this id."""
        check_id(organisation_id)
        check_name(name, what="an organisation")
        made = Organisation(organisation_id=organisation_id, name=name, created_at=self._clock(), limits=limits)
        if await self._table.find(organisation_id) is not None:
            return None
        try:
            was_added = await self._table.add(made, others_max=ORGANISATIONS_MAX - 1 if self._several else 0)
        except IntegrityError:  # made by another process since
            return None
        if not was_added:
            if self._several:
                raise InputError(f"there are {ORGANISATIONS_MAX:,} organisations, which is the most; disable some")
            raise self._one_only("the first")
        return made

    async def _set_disabled(self, organisation_id: str, disabled_at: float | None) -> None:
        found = await self._table.set_disabled(organisation_id, disabled_at)
        self._open.clear()
        if not found:
            raise UnknownOrganisationError(organisation_id)

    @staticmethod
    def _one_only(first: str) -> OneOrganisationError:
        return OneOrganisationError(
            f"this machine keeps one organisation only, which is {first}: without root all sandboxes have one uid, "
            "which is not enough to keep two organisations apart; run the service, and this command, as root"
        )
