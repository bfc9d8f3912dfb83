"""Changes of keys, organisations and consents by whoever operates the service, each on the audit record of its
organisation: who did it on this machine, to what, with which rights. Never a key's text.

INVARIANT: what gives a right stays only if it is on record; else it is taken back. What takes one away stays done, and
the error says that it is not on record.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import anyio

from moonpool.core.audit import JournalError
from moonpool.core.audit_records import AdministrationRecord, time_stamp
from moonpool.store.journals import open_journal_place
from moonpool.store.paths import tenant_dir

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from moonpool.bootstrap.database import ServiceData
    from moonpool.features.caller_limits.model import CallerLimits
    from moonpool.features.keys.model import ApiKey, KeySpec, NewKey
    from moonpool.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Administration:
    """Changes by one person or program, `by`. Every method raises DatabaseError, InputError, JournalError."""

    opened: ServiceData
    settings: Settings
    data: Path
    by: str

    async def create_key(self, spec: KeySpec) -> NewKey:
        """Make a key, and its organisation if there is none."""
        organisation = spec.organisation_id
        if not await self.opened.organisations.is_open(organisation):
            await self.opened.organisations.ensure(organisation)
            await self._record(organisation, "organisation_created", organisation, {})
        new = await self.opened.keys.create(spec)
        key_id = new.stored.key_id
        await self._given(
            organisation, "key_created", key_id, _rights(new.stored), lambda: self.opened.keys.revoke(key_id)
        )
        return new

    async def limit_key(self, key_id: str, limits: CallerLimits) -> None:
        key = await self.opened.keys.find(key_id)
        await self.opened.keys.limit(key_id, limits)
        await self._given(
            key.organisation_id, "key_limited", key_id, limits.said(),
            lambda: self.opened.keys.limit(key_id, key.limits),
        )  # fmt: skip

    async def revoke_key(self, key_id: str) -> bool:
        """False: it was revoked before."""
        key = await self.opened.keys.find(key_id)
        changed = await self.opened.keys.revoke(key_id)
        if changed:
            await self._taken(key.organisation_id, "key_revoked", key_id)
        return changed

    async def create_organisation(self, organisation: str, name: str, limits: CallerLimits) -> None:
        await self.opened.organisations.create(organisation, name, limits)
        undo = self.opened.organisations.disable
        await self._given(organisation, "organisation_created", organisation, limits.said(), lambda: undo(organisation))

    async def limit_organisation(self, organisation: str, limits: CallerLimits) -> None:
        before = await self.opened.organisations.limits_of(organisation)
        await self.opened.organisations.limit(organisation, limits)
        undo = self.opened.organisations.limit
        await self._given(
            organisation, "organisation_limited", organisation, limits.said(), lambda: undo(organisation, before)
        )

    async def disable_organisation(self, organisation: str) -> None:
        await self.opened.organisations.disable(organisation)
        await self._taken(organisation, "organisation_disabled", organisation)

    async def enable_organisation(self, organisation: str) -> None:
        await self.opened.organisations.enable(organisation)
        undo = self.opened.organisations.disable
        await self._given(organisation, "organisation_enabled", organisation, {}, lambda: undo(organisation))

    async def give_consent(
        self, organisation: str, principal: str, client_id: str, server_id: str, server_digest: str
    ) -> None:
        """See `UserConsents.give`."""
        consents = self.opened.consents
        await consents.give(organisation, principal, client_id, server_id, server_digest, given_by=self.by)
        told = {"client": client_id, "server": server_id}
        await self._given(
            organisation, "consent_given", principal, told,
            lambda: consents.withdraw(organisation, principal, client_id, server_id),
        )  # fmt: skip

    async def withdraw_consent(self, organisation: str, principal: str, client_id: str, server_id: str) -> bool:
        """False: there was none."""
        withdrawn = await self.opened.consents.withdraw(organisation, principal, client_id, server_id)
        if withdrawn:
            told = {"client": client_id, "server": server_id}
            await self._taken(organisation, "consent_withdrawn", principal, told)
        return withdrawn

    async def _given(
        self,
        organisation: str,
        action: str,
        subject: str,
        details: Mapping[str, object],
        undo: Callable[[], Awaitable[object]],
    ) -> None:
        try:
            await self._record(organisation, action, subject, details)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await undo()
            raise

    async def _taken(
        self, organisation: str, action: str, subject: str, details: Mapping[str, object] | None = None
    ) -> None:
        try:
            await self._record(organisation, action, subject, details or {})
        except JournalError as error:
            raise JournalError(f"{action.replace('_', ' ')}: done, but it is not on record: {error}") from error

    async def _record(self, organisation: str, action: str, subject: str, details: Mapping[str, object]) -> None:
        record = AdministrationRecord(
            run_id=f"adm_{secrets.token_hex(16)}",
            at=time_stamp(datetime.now(UTC)),
            principal=self.by,
            action=action,
            subject=subject,
            details=tuple(f"{name} {value}" for name, value in details.items()),
        )
        folder = tenant_dir(self.data, organisation)
        async with (
            open_journal_place(self.settings, folder, organisation) as place,
            place.open(lazily=False) as journal,
        ):
            await journal.record(record)


def _rights(key: ApiKey) -> Mapping[str, object]:
    rights: dict[str, object] = {"scopes": " ".join(sorted(key.scopes)), "name": key.name}
    if key.profile is not None:
        rights["profile"] = key.profile
    if key.expires_at is not None:
        rights["expires"] = time_stamp(datetime.fromtimestamp(key.expires_at, UTC))
    return {**rights, **key.limits.said()}
