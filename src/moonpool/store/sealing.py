"""Encrypts private data that is no secret, with the installation's key if there is one.

The key is derived from that of the secret store (`moonpool.store.secret_key`). No key is created: without it, contents
are stored unencrypted in a file that only its owner may read. The first byte of each blob says which; a blob that is
moved to another place cannot be opened.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from moonpool.store.secret_key import VARIABLE, SecretStoreError, load_or_make_key, parse_key

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_PLAIN: Final = b"\0"
_SEALED: Final = b"\1"
_NONCE_BYTES: Final = 12


class Unsealable(Exception):  # noqa: N818  the caller names the object
    """The blob cannot be opened: wrong key, or it was changed."""


class Sealer:
    """Seals and opens blobs for one purpose. Looks for the key at first use."""

    def __init__(self, secrets_folder: Path, environ: Mapping[str, str], purpose: str) -> None:
        self._key_path, self._key_text = secrets_folder / "key", environ.get(VARIABLE, "")
        self._purpose = purpose
        self._looked = False
        self._cipher: AESGCM | None = None

    def seal(self, data: bytes, place: str) -> bytes:
        """`data` sealed for `place`, or marked as plain. Raises SecretStoreError for an unusable key."""
        cipher = self._find()
        if cipher is None:
            return _PLAIN + data
        nonce = os.urandom(_NONCE_BYTES)
        return _SEALED + nonce + cipher.encrypt(nonce, data, place.encode())

    def open(self, blob: bytes, place: str) -> bytes:
        """The data given to `seal`. Raises Unsealable, SecretStoreError."""
        if blob[:1] == _PLAIN:
            return blob[1:]
        cipher = self._find()
        if blob[:1] != _SEALED or cipher is None:
            raise Unsealable
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415

        try:
            return cipher.decrypt(blob[1 : 1 + _NONCE_BYTES], blob[1 + _NONCE_BYTES :], place.encode())
        except (InvalidTag, ValueError):
            raise Unsealable from None

    def _find(self) -> AESGCM | None:
        if not self._looked:
            self._cipher = self._make()
            self._looked = True
        return self._cipher

    def _make(self) -> AESGCM | None:
        if self._key_text:
            key = parse_key(self._key_text, where=VARIABLE)
        elif self._key_path.exists():
            key = load_or_make_key(self._key_path)
        else:
            return None
        # Takes some 20 ms to import, so only if there is a key.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
        from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

        return AESGCM(HKDF(SHA256(), 32, None, f"moonpool {self._purpose}".encode()).derive(key))


__all__ = ["Sealer", "SecretStoreError", "Unsealable"]
