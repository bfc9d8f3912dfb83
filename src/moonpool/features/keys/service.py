"""Making, listing, revoking and verifying keys.

A verified key is remembered for `REMEMBERED_S`, so that a session of many requests asks the database once a second.
INVARIANT: no longer: a key revoked anywhere is refused by every replica within one second. Only good keys are
remembered, so a new one works at once, and guesses cannot fill the memory.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy.exc import IntegrityError

from moonpool.core.errors import InputError
from moonpool.features.keys.model import NewKey, UnknownKeyError, digest_of, is_key, make_key
from moonpool.features.keys.table import KeyTable
from moonpool.features.organisations.model import check_id, check_name
from moonpool.store.database.base import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from moonpool.features.caller_limits.model import CallerLimits
    from moonpool.features.keys.model import ApiKey, KeySpec
    from moonpool.store.database.base import Database
    from moonpool.store.secrets import SealedValues

_log = logging.getLogger(__name__)
KIND: Final = "variables of a key"
REMEMBERED_S: Final = 0.8
"""Less than a second by what a request may take from its verification to its effect."""
REMEMBERED_MAX: Final = 10_000
OPENED_MAX: Final = 1_000
LAST_USED_S: Final = 60.0
"""How exactly it is known when a key was used last."""
_NOTES_MAX: Final = 64


class _Remembered(NamedTuple):
    key: ApiKey
    asked_at: float


class Keys:
    """Of one database. Used from one event loop. Every method but `verify` raises DatabaseError and InputError."""

    def __init__(
        self,
        database: Database,
        *,
        sealed: SealedValues | None = None,
        region: str = "local",
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`sealed` seals variables of keys; without it there are none."""
        self._table, self._sealed, self._region = KeyTable(database), sealed, region
        self._clock, self._monotonic = clock, monotonic
        self._remembered: dict[bytes, _Remembered] = {}
        self._opened: dict[str, Mapping[str, str]] = {}  # variables by sealed text
        self._noted_at: dict[str, float] = {}
        self._notes: set[asyncio.Task[None]] = set()

    async def create(self, spec: KeySpec) -> NewKey:
        """A key of an organisation that exists. The result alone holds its text. Raises SecretStoreError, too."""
        check_id(spec.organisation_id)
        check_name(spec.name, what="a key")
        new = make_key(spec, self._region, self._clock())
        if spec.variables:
            assert self._sealed is not None
            text = json.dumps(dict(spec.variables), ensure_ascii=False)
            sealed = await asyncio.to_thread(self._sealed.seal, new.stored.place, text)
            new = NewKey(replace(new.stored, sealed_variables=sealed), new.text)
        try:
            problem = await self._table.add(new.stored)
        except IntegrityError:
            raise InputError(
                f"there is no organisation {spec.organisation_id}; `moonpool orgs create` makes it"
            ) from None
        if problem:
            raise InputError(problem)
        return new

    async def all(self, organisation_id: str | None = None) -> Sequence[ApiKey]:
        return await self._table.all(organisation_id)

    async def find(self, key_id: str) -> ApiKey:
        found = await self._table.find(key_id)
        if found is None:
            raise UnknownKeyError(key_id)
        return found

    async def is_empty(self) -> bool:
        """Whether there was never a key."""
        return await self._table.is_empty()

    async def revoke(self, key_id: str) -> bool:
        """End it: here at once, in other replicas within a second. False: it was revoked before."""
        changed = await self._table.revoke(key_id, self._clock())
        self._remembered.clear()
        if changed is None:
            raise UnknownKeyError(key_id)
        return changed

    async def limit(self, key_id: str, limits: CallerLimits) -> None:
        """Change what it may use: here at once, in other replicas within a second."""
        found = await self._table.limit(key_id, limits)
        self._remembered.clear()
        if not found:
            raise UnknownKeyError(key_id)

    async def verify(self, credential: str) -> ApiKey | None:
        """The key that `credential` is; None: it is no key, or unknown, revoked, expired or of a disabled organisation.

        Raises DatabaseError. SECURITY: what takes different time here is the lookup by the SHA-256 of what was sent.
        Who sends it cannot choose that hash, so nothing is learned of a stored one; the last comparison is constant.
        """
        if not is_key(credential):
            return None
        digest = digest_of(credential)
        now = self._monotonic()
        known = self._remembered.get(digest)
        if known is None or not 0 <= now - known.asked_at < REMEMBERED_S:
            self._remembered.pop(digest, None)
            found = await self._table.usable(digest)
            if found is None or not hmac.compare_digest(found.digest, digest):
                return None
            known = self._remember(digest, _Remembered(found, now))
        if known.key.state(self._clock()) != "valid":
            return None
        self._note_use(known.key)
        return known.key

    async def variables_of(self, key: ApiKey) -> Mapping[str, str]:
        """Those that it gives code. Raises SecretStoreError."""
        if not key.sealed_variables:
            return {}
        if (known := self._opened.get(key.sealed_variables)) is not None:
            return known
        assert self._sealed is not None
        text = await asyncio.to_thread(self._sealed.open, key.place, key.sealed_variables)
        if len(self._opened) >= OPENED_MAX:
            self._opened.clear()
        return self._opened.setdefault(key.sealed_variables, json.loads(text))

    async def lapsed(self, key_ids: Collection[str]) -> set[str]:
        """Those of `key_ids` that count no more, as the database says now: revoked, expired, of a disabled
        organisation, or unknown. They are refused from now on, as they are when they are remembered no more.
        """
        lapsed = set(key_ids) - await self._table.usable_ids(key_ids, self._clock())
        for digest, known in tuple(self._remembered.items()) if lapsed else ():
            if known.key.key_id in lapsed:
                del self._remembered[digest]
        return lapsed

    async def close(self) -> None:
        """Wait for what is being noted."""
        if self._notes:
            await asyncio.wait(self._notes)

    def _remember(self, digest: bytes, known: _Remembered) -> _Remembered:
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[digest] = known
        return known

    def _note_use(self, key: ApiKey) -> None:
        """Beside the request, which does not wait for it and does not fail by it."""
        now = self._clock()
        noted = max(key.last_used_at or 0.0, self._noted_at.get(key.key_id, 0.0))
        if now - noted < LAST_USED_S or len(self._notes) >= _NOTES_MAX:
            return
        if len(self._noted_at) >= REMEMBERED_MAX:
            self._noted_at.clear()
        self._noted_at[key.key_id] = now
        task = asyncio.create_task(self._keep_use(key.key_id, now))
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)

    async def _keep_use(self, key_id: str, now: float) -> None:
        try:
            await self._table.note_use(key_id, now, unless_since=now - LAST_USED_S)
        except DatabaseError as error:
            _log.warning("when key %s was used last cannot be kept: %s", key_id, error)
