"""Servers that organisations added, in the tenants that are open: taken in and ended as the database says.

One task asks the database for all open organisations once a second, and at once after a change made here.
INVARIANT: that a server was added is in its organisation's journal before anything is sent to it, that it was removed
before its row is forgotten, each once.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from moonpool.configuration.secrets import secrets_in
from moonpool.configuration.server_config import McpConfig, ServerConfig
from moonpool.core.audit_records import CallOutcomeRecord, time_stamp
from moonpool.core.errors import InputError, MoonpoolError
from moonpool.core.json import digest_json
from moonpool.features.approvals.model import REGISTRATION
from moonpool.features.servers.model import same_name
from moonpool.store.paths import DEFAULT_TENANT

if TYPE_CHECKING:
    from moonpool.bootstrap.database import ServiceData
    from moonpool.bootstrap.tenant import Tenant
    from moonpool.features.servers.model import OwnServer
    from moonpool.features.servers.service import OwnServers

EVERY_S: Final = 0.8
"""Less than the second within which a change made elsewhere has its effect."""
_ADDED: Final = "organisation_server_added"
_REMOVED: Final = "organisation_server_removed"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Followed:
    """An open tenant, and what it has of the rows."""

    tenant: Tenant
    shown: dict[str, OwnServer] = field(default_factory=dict[str, "OwnServer"])  # by name
    problems: dict[str, str] = field(default_factory=dict[str, str])  # by change, what the log has said already
    work: asyncio.Task[None] | None = None
    listing: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    async def end(self) -> None:
        """End what is being done about the rows."""
        working = [*self.listing, *([] if self.work is None else [self.work])]
        for work in working:
            work.cancel()
        await asyncio.gather(*working, return_exceptions=True)


class OrganisationServers:
    """Follows the rows of all open organisations until `close`."""

    def __init__(self, servers: OwnServers, operators: McpConfig | None) -> None:
        """`operators`: the file with the names that nobody else may use."""
        self.servers = servers
        self.taken = () if operators is None else operators.taken_ids
        self._followed: dict[str, _Followed] = {}
        self._wanted = asyncio.Event()
        self._watching = asyncio.create_task(self._watch())

    async def follow(self, tenant: Tenant) -> None:
        """Take in the servers of a tenant that was just opened, and from now on every change."""
        followed = _Followed(tenant)
        await self._apply(followed, list(await self.servers.all([tenant.tenant_id])))
        self._followed[tenant.tenant_id] = followed

    async def unfollow(self, organisation: str) -> None:
        """Its tenant is closed soon."""
        if (followed := self._followed.pop(organisation, None)) is not None:
            await followed.end()

    def look_soon(self) -> None:
        """Something was changed here."""
        self._wanted.set()

    async def close(self) -> None:
        """Follow nothing any more. The tenants are still open."""
        self._watching.cancel()
        await asyncio.gather(self._watching, *(one.end() for one in self._followed.values()), return_exceptions=True)
        self._followed.clear()

    async def _watch(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await self._wanted.wait()
            self._wanted.clear()
            if not self._followed:
                continue
            try:
                rows = await self.servers.all(self._followed.keys())
            except MoonpoolError as error:
                _log.warning("changes of organisations' servers cannot be seen now: %s", error)
                continue
            for organisation, followed in tuple(self._followed.items()):
                own = [one for one in rows if one.organisation_id == organisation]
                if followed.work is None or followed.work.done():  # else the next look finds the same
                    followed.work = asyncio.create_task(self._apply(followed, own))

    async def _apply(self, followed: _Followed, rows: list[OwnServer]) -> None:
        """Make the tenant's servers what `rows` say. One that fails is tried again with the next look."""
        for row in rows:
            try:
                if row.removed_at is not None:
                    await self._end(followed, row)
                elif row.server_id not in followed.shown:
                    await self._begin(followed, row)
            except MoonpoolError as error:
                if followed.problems.get(row.change_id) != str(error):
                    followed.problems[row.change_id] = str(error)
                    _log.warning("server %r of %s: %s", row.server_id, row.organisation_id, error)
            except Exception:  # noqa: BLE001  a bug at one server ends no other's
                _log.exception("server %r of %s", row.server_id, row.organisation_id)
        known = {row.change_id for row in rows}
        for gone in [one for one in followed.shown.values() if one.change_id not in known]:
            await self._hide(followed, gone)  # another replica has put it on record
        followed.problems = {change: told for change, told in followed.problems.items() if change in known}

    async def _begin(self, followed: _Followed, row: OwnServer) -> None:
        # SECURITY: a name that the operator gave later is the operator's.
        if any(same_name(row.server_id, one) for one in self.taken):
            if row.change_id not in followed.problems:
                followed.problems[row.change_id] = "taken"
                _log.warning("server %r of %s is not used: the operator has one of this name", row.server_id,
                             row.organisation_id)  # fmt: skip
            return
        headers = await self.servers.headers(row)
        if row.recorded_at is None:
            await _record(followed.tenant, row, _ADDED, row.added_by, row.added_at)
            await self.servers.recorded(row)
        followed.shown[row.server_id] = row
        added = followed.tenant.added_servers
        names = await added.take_in(config_of(row, headers))
        listing = asyncio.create_task(added.load(names))  # a server that keeps silent holds up no change of another
        followed.listing.add(listing)
        listing.add_done_callback(partial(_listed, followed))

    async def _end(self, followed: _Followed, row: OwnServer) -> None:
        await self._hide(followed, row)
        if row.recorded_at is None:
            await _record(followed.tenant, row, _ADDED, row.added_by, row.added_at)
        await _record(followed.tenant, row, _REMOVED, row.removed_by or "", row.removed_at or 0.0)
        await self.servers.forget(row)

    async def _hide(self, followed: _Followed, row: OwnServer) -> None:
        shown = followed.shown.get(row.server_id)
        if shown is not None and shown.change_id == row.change_id:
            await followed.tenant.added_servers.remove(row.server_id)
            del followed.shown[row.server_id]


def _listed(followed: _Followed, listing: asyncio.Task[None]) -> None:
    followed.listing.discard(listing)
    if not listing.cancelled() and (error := listing.exception()) is not None:
        _log.error("tools of a server of %s cannot be shown", followed.tenant.tenant_id, exc_info=error)


async def servers_for(data: ServiceData, organisation: str, operators: McpConfig | None) -> McpConfig:
    """The servers that an organisation may use: the operator's and its own. Raises InputError, DatabaseError."""
    known = (one.organisation_id for one in await data.organisations.all())
    if organisation not in {DEFAULT_TENANT, *known}:
        raise InputError(f"there is no organisation {organisation[:80]!r}; `moonpool orgs list` shows all")
    found = McpConfig(source="the service") if operators is None else operators.for_organisation(organisation)
    for row in await data.servers.of(organisation):
        if row.server_id not in found.ids:
            added = config_of(row, await data.servers.headers(row))
            found = replace(found, servers=(*found.servers, *added.servers))
    return found


def config_of(row: OwnServer, headers: dict[str, str]) -> McpConfig:
    """It as a configuration of one server."""
    server = ServerConfig(
        server_id=row.server_id,
        transport="auto",
        url=row.url,
        headers=headers,
        expose=row.expose,
        secrets=frozenset(secret for name, value in headers.items() for secret in secrets_in(name, value)),
        public_only=True,
    )
    return McpConfig(source=f"organisation {row.organisation_id}", servers=(server,))


async def _record(tenant: Tenant, row: OwnServer, what: str, by: str, at: float) -> None:
    """Raises JournalError."""
    run_id = row.change_id if what == _ADDED else f"{row.change_id}_removed"
    if await asyncio.to_thread(tenant.journal_place.reader().has, run_id, CallOutcomeRecord.kind):
        return
    await tenant.runtime.journal.record(
        CallOutcomeRecord(
            run_id=run_id,
            trace_id=row.change_id.removeprefix("server_"),
            call_id=0,
            at=time_stamp(datetime.fromtimestamp(at, UTC)),
            principal=by,
            session_id="",
            code_digest="",
            server_id=row.server_id,
            tool_name=REGISTRATION,
            tool_digest="",
            arguments_digest=digest_json({"url": row.url, "headers": [*row.header_names], "expose": row.expose}),
            verdict="allow",
            rule_id=what,
            approval="",
            approver="",
            duration_ms=0.0,
            result_bytes=0,
            result_digest="",
            error_type="",
        )
    )
