"""Sealed texts by name in the service's PostgreSQL database, for whoever has the key of the secret store.

Replicas on machines of their own get one key from their operator (`MOONPOOL_SECRETS_KEY`). INVARIANT: all that is
sealed here has one key: the first that seals leaves a check value, and who cannot open that seals nothing and makes no
key. SECURITY: the associated data of a text is organisation, kind and name, so one that is moved cannot be opened.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from moonpool.store.database.kept import KeptRows
from moonpool.store.paths import DEFAULT_TENANT
from moonpool.store.secret_key import VARIABLE
from moonpool.store.secrets import NAME_BYTES_MAX, SECRET_BYTES_MAX, SecretStoreError, WrongSecretsKeyError

if TYPE_CHECKING:
    from moonpool.store.database.blocking import TenantRows
    from moonpool.store.database.kept import Change
    from moonpool.store.secrets import SealedValues

SEALED_KIND: Final = "service's database"
"""Of the `SealedValues` given here."""
_CHECK: Final = "check"


@dataclass(frozen=True, slots=True)
class SealedRows:
    """The texts of one kind of one organisation. Blocking. Methods raise SecretStoreError, and what `rows` raises."""

    rows: TenantRows
    sealed: SealedValues

    def get(self, name: str) -> str | None:
        """The text, or None."""
        found = KeptRows(self.rows).get(name)
        return None if found is None else self.open(name, found)

    def names(self) -> tuple[str, ...]:
        """Every name, sorted. Needs no key."""
        return KeptRows(self.rows).names()

    def put(self, name: str, text: str) -> None:
        """Keep `text`, replacing an older one."""
        body = self.seal(name, text)
        KeptRows(self.rows).change(lambda change: change.put(name, body))

    def first(self, name: str, text: str) -> str:
        """The text under this name, which is now `text` if there was none: of several writers the first counts."""
        kept = KeptRows(self.rows)
        if (found := kept.get(name)) is None:
            sealed = self.seal(name, text)

            def work(change: Change) -> bytes:
                if (there := change.get(name)) is not None:
                    return there.body
                change.put(name, sealed)
                return sealed

            found = kept.change(work)
        return self.open(name, found)

    def remove(self, name: str) -> bool:
        """Remove a text; False if there was none. Needs no key."""
        return KeptRows(self.rows).change(lambda change: change.remove(name))

    def claim(self, name: str, for_s: float) -> bool:
        """Whether nobody else has claimed this name; ours until `release`, or for so long on the server's clock."""

        def work(change: Change) -> bool:
            found = change.get(name)
            if found is not None and found.age_s < for_s:
                return False
            change.put(name, b"")
            return True

        return self._claims.change(work)

    def release(self, name: str) -> None:
        """End a claim."""
        self._claims.change(lambda change: change.remove(name))

    @property
    def _claims(self) -> KeptRows:
        return KeptRows(replace(self.rows, kind=f"{self.rows.kind} claimed"))

    def seal(self, name: str, text: str) -> bytes:
        if len(text.encode()) > SECRET_BYTES_MAX or len(name.encode()) > NAME_BYTES_MAX:
            raise SecretStoreError(f"a secret has at most {SECRET_BYTES_MAX // 1024} KiB; this one is larger")
        check_key(self.rows, self.sealed, leave=True)
        return self.sealed.seal(self._bound(name), text).encode()

    def open(self, name: str, body: bytes) -> str:
        check_key(self.rows, self.sealed)
        return self.sealed.open(self._bound(name), body.decode())

    def _bound(self, name: str) -> str:
        return json.dumps([self.rows.organisation_id, self.rows.kind, name])


def check_key(rows: TenantRows, sealed: SealedValues, *, leave: bool = False) -> None:
    """Raise WrongSecretsKeyError unless our key is the one of the database. `leave` a check value if there is none."""
    kept = KeptRows(replace(rows, organisation_id=DEFAULT_TENANT, kind="sealing"))
    if (found := kept.get(_CHECK)) is None and leave:
        own = sealed.seal(_CHECK, "").encode()

        def first(change: Change) -> bytes:
            if (there := change.get(_CHECK)) is not None:
                return there.body
            change.put(_CHECK, own)
            return own

        found = kept.change(first)
    if found is None:
        return
    try:
        sealed.open(_CHECK, found.decode())
    except WrongSecretsKeyError:
        raise WrongSecretsKeyError(
            "logins and keys in the service's database are sealed with a key that this process does not have; start "
            f"all replicas and commands with the same {VARIABLE}, or copy private/secrets/key from the data folder of "
            "the one that made it"
        ) from None
