"""The installation's Ed25519 key, with which receipts are signed, and the public keys it had before.

Made at first use. The private key lies in a folder that is closed to other users, as a file with mode 0600; sandboxes
see neither, whatever uid they run under. Public keys are kept when the key is changed, so that old receipts verify.

SECURITY: a key file that others may read or that belongs to somebody else is refused, not tightened: it may have been
read. A key appears whole or not at all, and the first of two processes that make one at once wins.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.store.private_files import StoreFolderError, private_folder, replace_private_file, sync_file, sync_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX: Final = "ed25519:"
_KEY_BYTES: Final = 32
_FILE_BYTES_MAX: Final = 4096


class SigningKeyError(MoonpoolError):
    """The key for receipts cannot be used, or a public key cannot be read. Nothing was signed or verified."""

    code = "signing_key_unusable"
    fault = Fault.HOST


class PublicKey:
    """A public key: what it is called, its text, and whether it signed something."""

    def __init__(self, key: Ed25519PublicKey) -> None:
        raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        self._key = key
        self.text = _PREFIX + base64.b64encode(raw).decode()
        self.key_id = hashlib.sha256(raw).hexdigest()[:32]

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        """Read what `text` gave. Raises SigningKeyError."""
        try:
            raw = base64.b64decode(text.strip().removeprefix(_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        if not text.strip().startswith(_PREFIX) or len(raw) != _KEY_BYTES:
            raise SigningKeyError(f"{text.strip()[:80]!r} is not a public key; give what `moonpool receipt key` prints")
        return cls(Ed25519PublicKey.from_public_bytes(raw))

    def has_signed(self, content: bytes, signature: bytes) -> bool:
        try:
            self._key.verify(signature, content)
        except InvalidSignature:
            return False
        return True


class InstallationKeys(ABC):
    """The keys of one installation."""

    def sign(self, content: bytes) -> tuple[str, bytes]:
        """The id of the current key and its signature; the key is made when there is none. Raises SigningKeyError."""
        key = self.load_or_make()
        return PublicKey(key.public_key()).key_id, key.sign(content)

    def current(self) -> PublicKey:
        """The public half of the key in force; made when there is none. Raises SigningKeyError."""
        return PublicKey(self.load_or_make().public_key())

    @abstractmethod
    def load_or_make(self) -> Ed25519PrivateKey:
        """The key in force. Raises SigningKeyError."""

    @abstractmethod
    def known(self) -> Mapping[str, PublicKey]:
        """Every public key that this installation has or had, by id. Makes none. Raises SigningKeyError."""

    @abstractmethod
    def rotate(self) -> PublicKey:
        """Put a new key in the place of the current one, which is forgotten; its public half stays."""


class SigningKeys(InstallationKeys):
    """In one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._private, self._public = folder / "receipts.pem", folder / "public"

    def known(self) -> Mapping[str, PublicKey]:
        found: dict[str, PublicKey] = {}
        try:
            for path in sorted(self._public.glob("*.pub")):
                key = PublicKey.parse(path.read_text(encoding="utf-8", errors="replace")[:_FILE_BYTES_MAX])
                found[key.key_id] = key
        except OSError as error:
            raise SigningKeyError(f"{self._public} cannot be read: {error.strerror or error}") from None
        return found

    def rotate(self) -> PublicKey:
        self._folders()
        key = Ed25519PrivateKey.generate()
        public = self._publish(key)
        try:
            replace_private_file(self._private, pem_of(key), durable=True)
        except OSError as error:
            raise self._unwritable(error) from None
        return public

    def load_or_make(self) -> Ed25519PrivateKey:
        self._folders()
        try:
            if not self._private.exists():
                self._make()
            return self._load()
        except OSError as error:
            raise self._unwritable(error) from None

    def _make(self) -> None:
        key = Ed25519PrivateKey.generate()
        self._publish(key)  # first: no receipt is signed by a key that nobody knows
        handle, name = tempfile.mkstemp(dir=self._folder, prefix=".receipts.")  # mkstemp makes it 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(pem_of(key))
                sync_file(file)
            self._private.hardlink_to(name)
            sync_folder(self._folder)
        except FileExistsError:
            pass  # another process was faster; its key counts
        finally:
            Path(name).unlink(missing_ok=True)

    def _load(self) -> Ed25519PrivateKey:
        state = self._private.stat(follow_symlinks=False)
        if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or stat.S_IMODE(state.st_mode) & 0o077:
            problem = "is not a file that only its owner, which runs this, may read; another account may know the key"
            raise SigningKeyError(f"{self._private} {problem}. Make a new one: `moonpool receipt key --rotate`")
        return key_in(self._private.read_bytes()[:_FILE_BYTES_MAX], where=str(self._private))

    def _publish(self, key: Ed25519PrivateKey) -> PublicKey:
        public = PublicKey(key.public_key())
        try:
            replace_private_file(self._public / f"{public.key_id}.pub", f"{public.text}\n".encode(), durable=True)
        except OSError as error:
            raise self._unwritable(error) from None
        return public

    def _folders(self) -> None:
        try:
            private_folder(self._folder.parent)
            private_folder(self._folder)
            private_folder(self._public)
        except StoreFolderError as error:
            raise SigningKeyError(str(error)) from None

    def _unwritable(self, error: OSError) -> SigningKeyError:
        return SigningKeyError(f"the key for receipts in {self._folder} cannot be used: {error.strerror or error}")


def key_in(pem: bytes, *, where: str) -> Ed25519PrivateKey:
    """Raises SigningKeyError."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise SigningKeyError(f"{where} holds no key. Make a new one: `moonpool receipt key --rotate`")
    return key


def pem_of(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
