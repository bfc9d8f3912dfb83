"""Setting, reading and removing organisations' own policies."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from moonpool.configuration.policy_file import parse_policy
from moonpool.core.errors import ConfigError, InputError
from moonpool.features.organisation_policies.model import (
    TEXT_BYTES_MAX,
    OwnPolicy,
    PolicyRefusedError,
    check_only_stricter,
)
from moonpool.features.organisations.model import check_id
from moonpool.store.database.tables import ORGANISATION_POLICY

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from sqlalchemy import Connection, Row

    from moonpool.policy import Layer
    from moonpool.store.database.base import Database

_C: Final = ORGANISATION_POLICY.c


class OrganisationPolicies:
    """Of all organisations of one database. Every method raises DatabaseError."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock

    async def set(self, organisation_id: str, text: str, *, by: str) -> OwnPolicy:
        """In force within a second everywhere. Raises PolicyRefusedError, InputError."""
        check_id(organisation_id)
        await asyncio.to_thread(layer_of, text)
        made = OwnPolicy(organisation_id=organisation_id, text=text, set_by=by, set_at=self._clock())
        values = {"body": text, "set_by": by, "set_at": made.set_at}
        change = update(ORGANISATION_POLICY).where(_C.organisation_id == organisation_id).values(values)
        new = insert(ORGANISATION_POLICY).values(organisation_id=organisation_id, **values)

        def work(connection: Connection) -> None:
            if not connection.execute(change).rowcount:
                connection.execute(new)

        try:
            await self._database.write(work)
        except IntegrityError:
            raise InputError(f"there is no organisation {organisation_id}; `moonpool orgs create` makes it") from None
        return made

    async def remove(self, organisation_id: str) -> bool:
        """False: there was none."""
        one = delete(ORGANISATION_POLICY).where(_C.organisation_id == organisation_id)
        return await self._database.write(lambda connection: connection.execute(one).rowcount == 1)

    async def find(self, organisation_id: str) -> OwnPolicy | None:
        found = await self.of([organisation_id])
        return found[0] if found else None

    async def of(self, organisations: Collection[str]) -> Sequence[OwnPolicy]:
        """Those of these organisations that have one."""
        rows = await self._database.read(select(ORGANISATION_POLICY).where(_C.organisation_id.in_(organisations)))
        return [_policy(row) for row in rows]


def layer_of(text: str) -> Layer:
    """What it means. Blocking. Raises PolicyRefusedError."""
    try:
        body = text.encode()
    except UnicodeEncodeError:
        raise PolicyRefusedError("the policy is no text in UTF-8") from None
    if "\0" in text:
        raise PolicyRefusedError("the policy holds a NUL character; remove it")
    if len(body) > TEXT_BYTES_MAX:
        raise PolicyRefusedError(f"a policy has at most {TEXT_BYTES_MAX:,} bytes of text")
    try:
        layer = parse_policy(body, source="the policy").layer
    except ConfigError as error:
        raise PolicyRefusedError(str(error)) from None
    check_only_stricter(layer)
    return layer


def _policy(row: Row[Any]) -> OwnPolicy:
    return OwnPolicy(organisation_id=row.organisation_id, text=row.body, set_by=row.set_by, set_at=row.set_at)
