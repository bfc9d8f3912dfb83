"""Tools that are switched off, in the service's database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, func, insert, select

from moonpool.features.tool_switches.model import SWITCHED_OFF_MAX, SwitchedOff
from moonpool.store.database.tables import TOOL_SWITCHED_OFF

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from moonpool.store.database.base import Database

_C: Final = TOOL_SWITCHED_OFF.c


class ToolSwitchTable:
    """Every method raises DatabaseError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def switch_off(self, organisation_id: str, switched: SwitchedOff) -> bool | None:
        """False: it is off already; None: there are too many. Raises IntegrityError when there is no organisation."""
        own = _C.organisation_id == organisation_id
        values = {
            "organisation_id": organisation_id,
            "tool": switched.tool,
            "switched_by": switched.by,
            "switched_at": switched.at,
        }

        def work(connection: Connection) -> bool | None:
            if connection.execute(select(_C.tool).where(own, _C.tool == switched.tool)).first() is not None:
                return False
            count = connection.execute(select(func.count()).select_from(TOOL_SWITCHED_OFF).where(own)).scalar_one()
            if count >= SWITCHED_OFF_MAX:
                return None
            connection.execute(insert(TOOL_SWITCHED_OFF).values(values))
            return True

        return await self._database.write(work)

    async def switch_on(self, organisation_id: str, tool: str) -> bool:
        """False: it was not off."""
        one = delete(TOOL_SWITCHED_OFF).where(_C.organisation_id == organisation_id, _C.tool == tool)
        return await self._database.write(lambda connection: connection.execute(one).rowcount == 1)

    async def all(self, organisation_id: str) -> Sequence[SwitchedOff]:
        """By name."""
        query = select(TOOL_SWITCHED_OFF).where(_C.organisation_id == organisation_id).order_by(_C.tool)
        rows = await self._database.read(query)
        return [SwitchedOff(tool=row.tool, by=row.switched_by, at=row.switched_at) for row in rows]
