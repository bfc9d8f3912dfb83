"""The secrets of organisations by which receivers know that a webhook is Moonpool's."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import IntegrityError

from moonpool.features.webhooks.model import new_secret

if TYPE_CHECKING:
    from moonpool.features.webhooks.table import WebhookTable
    from moonpool.store.secrets import SealedValues

KIND: Final = "secret of an organisation's webhooks"


class WebhookSecrets:
    """Of all organisations. Every method raises DatabaseError, SecretStoreError."""

    def __init__(self, table: WebhookTable, sealed: SealedValues) -> None:
        self._table, self._sealed = table, sealed

    async def secret(self, organisation: str) -> str:
        """Its secret, made where it has none."""
        if (found := await self._table.secret(organisation)) is None:
            await self._put(organisation, replace=False)
            found = await self._table.secret(organisation)
            assert found is not None, "nobody removes one"
        return await asyncio.to_thread(self._sealed.open, organisation, found)

    async def renew(self, organisation: str) -> str:
        """A new one in place of the old, which signs nothing from now on."""
        await self._put(organisation, replace=True)
        return await self.secret(organisation)

    async def _put(self, organisation: str, *, replace: bool) -> None:
        sealed = await asyncio.to_thread(self._sealed.seal, organisation, new_secret())
        for _ in range(2):  # another replica may put the first one at the same time
            try:
                await self._table.put_secret(organisation, sealed, time.time(), replace=replace)
            except IntegrityError:
                continue
            return
