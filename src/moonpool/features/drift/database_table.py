"""What was accepted of each server's tools, in the service's PostgreSQL database: as `moonpool.features.drift.table`.

Blocking; never on the database's loop.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from moonpool.features.drift.model.acceptance import Accepted
from moonpool.features.drift.table import FILE_BYTES_MAX
from moonpool.store.database.kept import KeptRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from moonpool.store.database.blocking import TenantRows
    from moonpool.store.database.kept import Change


class AcceptanceRows:
    """Of one organisation. Methods raise what `rows` raises: nothing is shown that was not compared."""

    def __init__(self, rows: TenantRows) -> None:
        self._kept = KeptRows(rows)

    def load(self, key: str) -> Accepted | None:
        """See `AcceptanceStore`."""
        return _accepted(self._kept.get(key))

    def update(self, key: str, change: Callable[[Accepted | None], Accepted]) -> bool:
        """See `AcceptanceStore`, but that `change` may run more than once."""

        def work(rows: Change) -> bool:
            found = rows.get(key)
            before = None if found is None else _accepted(found.body)
            after = change(before)
            if after == before:
                return True
            content = json.dumps(after.to_json(), separators=(",", ":")).encode()
            if len(content) > FILE_BYTES_MAX:
                return False
            rows.put(key, content)
            return True

        return self._kept.change(work)

    def stamp(self, key: str) -> int:
        """See `AcceptanceStore`."""
        return self._kept.version(key)


def _accepted(body: bytes | None) -> Accepted | None:
    if body is None:
        return None
    try:
        return Accepted.from_json(json.loads(body))
    except (ValueError, RecursionError):
        return Accepted(damaged=True)
