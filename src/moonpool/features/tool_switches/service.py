"""Switching tools of an organisation off and on, and which are off.

INVARIANT: what is off is remembered for less than a second, so a switch counts at every replica within one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import IntegrityError

from moonpool.core.errors import InputError
from moonpool.features.organisations.model import check_id
from moonpool.features.tool_switches.model import SWITCHED_OFF_MAX, SwitchedOff, check_tool_name
from moonpool.features.tool_switches.table import ToolSwitchTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from moonpool.store.database.base import Database

REMEMBERED_S: Final = 0.8
_REMEMBERED_MAX: Final = 10_000


class OrganisationToolSwitches:
    """Of all organisations of one database. Used from one event loop. Every method raises DatabaseError."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table, self._clock, self._monotonic = ToolSwitchTable(database), clock, monotonic
        self._remembered: dict[str, tuple[float, frozenset[str]]] = {}

    async def switch_off(self, organisation_id: str, tool: str, *, by: str) -> bool:
        """Here at once, in other replicas within a second. False: it is off already. Raises InputError."""
        check_id(organisation_id)
        check_tool_name(tool)
        try:
            done = await self._table.switch_off(organisation_id, SwitchedOff(tool=tool, by=by, at=self._clock()))
        except IntegrityError:
            if tool in {one.tool for one in await self._table.all(organisation_id)}:
                return False  # by somebody else, at the same moment
            raise InputError(f"there is no organisation {organisation_id}; `moonpool orgs create` makes it") from None
        self._remembered.clear()
        if done is None:
            raise InputError(f"an organisation switches off at most {SWITCHED_OFF_MAX:,} tools")
        return done

    async def switch_on(self, organisation_id: str, tool: str) -> bool:
        """Likewise. False: it was not off."""
        done = await self._table.switch_on(organisation_id, tool)
        self._remembered.clear()
        return done

    async def all(self, organisation_id: str) -> Sequence[SwitchedOff]:
        return await self._table.all(organisation_id)

    async def disabled_tools(self, organisation: str, /) -> frozenset[str]:
        """See `ToolSwitches`."""
        now = self._monotonic()
        known = self._remembered.get(organisation)
        if known is not None and 0 <= now - known[0] < REMEMBERED_S:
            return known[1]
        self._remembered.pop(organisation, None)
        names = frozenset(one.tool for one in await self._table.all(organisation))
        if len(self._remembered) >= _REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[organisation] = now, names
        return names
