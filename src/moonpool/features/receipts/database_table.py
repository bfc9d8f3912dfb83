"""The installation's key for receipts in the service's PostgreSQL database: what one replica signed, all verify.

The private key is sealed with the key of the secret store; public ones are not. Blocking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from moonpool.features.receipts.signing_keys import InstallationKeys, PublicKey, key_in, pem_of
from moonpool.store.database.kept import KeptRows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moonpool.store.database.kept import Change
    from moonpool.store.database.sealed import SealedRows

_PRIVATE: Final = "receipts.pem"


class SigningKeyRows(InstallationKeys):
    """See `InstallationKeys`. Methods raise SecretStoreError, and what the rows raise."""

    def __init__(self, sealed: SealedRows) -> None:
        self._sealed, self._kept = sealed, KeptRows(sealed.rows)

    def known(self) -> Mapping[str, PublicKey]:
        """See `InstallationKeys`."""
        keys = [PublicKey.parse(body.decode()) for name, body in self._kept.all().items() if name != _PRIVATE]
        return {key.key_id: key for key in keys}

    def rotate(self) -> PublicKey:
        """See `InstallationKeys`."""
        key = Ed25519PrivateKey.generate()
        self._put(key, replace=True)
        return PublicKey(key.public_key())

    def load_or_make(self) -> Ed25519PrivateKey:
        """See `InstallationKeys`. Of two processes that make one at once, the first wins."""
        body = self._kept.get(_PRIVATE) or self._put(Ed25519PrivateKey.generate(), replace=False)
        return key_in(self._sealed.open(_PRIVATE, body).encode(), where="the service's database")

    def _put(self, key: Ed25519PrivateKey, *, replace: bool) -> bytes:
        public = PublicKey(key.public_key())
        sealed = self._sealed.seal(_PRIVATE, pem_of(key).decode())

        def work(change: Change) -> bytes:
            if not replace and (there := change.get(_PRIVATE)) is not None:
                return there.body
            change.put(public.key_id, public.text.encode())
            change.put(_PRIVATE, sealed)
            return sealed

        return self._kept.change(work)
