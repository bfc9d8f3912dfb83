"""Secrets at rest: values by kind and name, each encrypted with AES-256-GCM, in one private file.

There are two kinds: `secret`, stored by a person for `${secret:NAME}`, and logins to servers (tokens and registrations,
see `oauth.stored_logins`). Names are stored in clear text, so that they can be listed; values never. Blocking: with an
event loop call it from a worker thread.

SECURITY: the associated data of an entry is its kind and name, so an entry that is moved to another name cannot be
decrypted. SECURITY: file and folder must belong to us and be closed to others, or nothing is read. INVARIANT: a change
is read, made and renamed into place under one lock; no reader sees a partial file and no change of another process is
lost.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import fcntl
import json
import os
import stat
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from moonpool.store.private_files import (
    StoreFolderError,
    create_private_file,
    private_folder,
    replace_private_file,
)
from moonpool.store.secret_key import VARIABLE, SecretStoreError, load_or_make_key, parse_key

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

SECRET_KIND: Final = "secret"  # noqa: S105  a name, not a secret
SECRET_BYTES_MAX: Final = 64 * 1024
NAME_BYTES_MAX: Final = 4096
_FILE_BYTES_MAX: Final = 16 * 1024**2
_FORMAT: Final = 1
_NONCE_BYTES: Final = 12
_CHECK: Final = ("check", "key")


class _Store(msgspec.Struct):
    format: Literal[1]
    entries: dict[str, dict[str, str]]


class WrongSecretsKeyError(SecretStoreError):
    """The store was encrypted with another key. Nothing was changed."""

    code = "secrets_key_wrong"


class SecretStore:
    """The store in one folder. Nothing is read or created before the first use."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._path, self._key_path, self._lock_path = folder / "store.json", folder / "key", folder / "lock"
        self._key_text = environ.get(VARIABLE, "")

    def get(self, kind: str, name: str) -> str | None:
        """The value, or None. Raises SecretStoreError."""
        if not self._path.exists():
            return None
        entries = self._read()
        sealed = entries.get(kind, {}).get(name)
        return None if sealed is None else self._open(entries, kind, name, sealed)

    def names(self, kind: str) -> tuple[str, ...]:
        """Every name of a kind, sorted. Needs no key. Raises SecretStoreError."""
        return tuple(sorted(self._read().get(kind, {}))) if self._path.exists() else ()

    def put(self, kind: str, name: str, value: str) -> None:
        """Store `value`, replacing an older one. Raises SecretStoreError."""
        if len(value.encode()) > SECRET_BYTES_MAX or len(name.encode()) > NAME_BYTES_MAX:
            raise SecretStoreError(f"a secret has at most {SECRET_BYTES_MAX // 1024} KiB; this one is larger")
        with self._changing() as entries:
            cipher = self._cipher()
            self._check(entries, cipher)
            entries.setdefault(_CHECK[0], {}).setdefault(_CHECK[1], _seal(cipher, *_CHECK, ""))
            entries.setdefault(kind, {})[name] = _seal(cipher, kind, name, value)

    def remove(self, kind: str, name: str) -> bool:
        """Remove a value; False if there was none. Needs no key. Raises SecretStoreError."""
        if not self._path.exists():
            return False
        with self._changing() as entries:
            return entries.get(kind, {}).pop(name, None) is not None

    @contextlib.contextmanager
    def _changing(self) -> Generator[dict[str, dict[str, str]]]:
        try:
            private_folder(self._folder.parent)
            private_folder(self._folder)
            create_private_file(self._lock_path)
            with self._lock_path.open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                entries = self._read() if self._path.exists() else {}
                yield entries
                content = json.dumps({"format": _FORMAT, "entries": entries}, sort_keys=True).encode()
                if len(content) > _FILE_BYTES_MAX:
                    raise SecretStoreError(f"{self._path} would exceed {_FILE_BYTES_MAX // 1024**2} MiB; remove some")
                replace_private_file(self._path, content, durable=True)
        except StoreFolderError as error:
            raise SecretStoreError(str(error)) from None
        except OSError as error:
            raise SecretStoreError(f"{self._path} cannot be written: {error.strerror or error}") from None

    def _read(self) -> dict[str, dict[str, str]]:
        try:
            state = self._path.stat(follow_symlinks=False)
            if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or stat.S_IMODE(state.st_mode) & 0o077:
                raise SecretStoreError(
                    f"{self._path} is not a file that only its owner, who runs this, may read; "
                    f"if nobody else wrote to it, close it: chmod 600 {self._path}"
                )
            if state.st_size > _FILE_BYTES_MAX:
                raise SecretStoreError(f"{self._path} is too large to be a secret store; remove it and set them again")
            stored: Any = json.loads(self._path.read_bytes())
        except OSError as error:
            raise SecretStoreError(f"{self._path} cannot be read: {error.strerror or error}") from None
        except (ValueError, RecursionError):
            stored = None
        try:
            store = msgspec.convert(stored, _Store)
        except msgspec.ValidationError:
            raise SecretStoreError(
                f"{self._path} is damaged; remove it, then set the secrets and log in again"
            ) from None
        return store.entries

    def _cipher(self) -> AESGCM:
        if self._key_text:
            return AESGCM(parse_key(self._key_text, where=VARIABLE))
        return AESGCM(load_or_make_key(self._key_path))

    def _check(self, entries: Mapping[str, Mapping[str, str]], cipher: AESGCM) -> None:
        """Check the key: with two keys in one store, the entries of one would be lost."""
        sealed = entries.get(_CHECK[0], {}).get(_CHECK[1])
        if sealed is None or _unseal(cipher, *_CHECK, sealed) is not None:
            return
        source = f"the variable {VARIABLE}" if self._key_text else f"the file {self._key_path}"
        raise WrongSecretsKeyError(
            f"{self._path} was sealed with another key than that of {source}; give the right key, or remove the "
            "store and set the secrets again"
        )

    def _open(self, entries: Mapping[str, Mapping[str, str]], kind: str, name: str, sealed: str) -> str:
        if not self._key_text and not self._key_path.exists():  # never create a new key for an existing store
            raise WrongSecretsKeyError(
                f"the key of {self._path} is missing: set {VARIABLE} or restore {self._key_path}"
            )
        cipher = self._cipher()
        self._check(entries, cipher)
        value = _unseal(cipher, kind, name, sealed)
        if value is None:
            raise SecretStoreError(f"the {kind} {name!r} in {self._path} was tampered with; remove it and set it again")
        return value


class SealedTexts:
    """The values of one kind of a store, by name."""

    def __init__(self, store: SecretStore, kind: str) -> None:
        self._store, self._kind = store, kind

    def names(self) -> tuple[str, ...]:
        return self._store.names(self._kind)

    def get(self, name: str) -> str | None:
        return self._store.get(self._kind, name)

    def put(self, name: str, text: str) -> None:
        self._store.put(self._kind, name, text)

    def remove(self, name: str) -> bool:
        return self._store.remove(self._kind, name)

    def claim(self, _name: str, _for_s: float) -> bool:
        """Processes on one folder do not wait for each other."""
        return True

    def release(self, _name: str) -> None:
        """See `claim`."""


class SealedValues:
    """Seals values of one kind that are stored elsewhere, with the key of a store. Blocking."""

    def __init__(self, folder: Path, environ: Mapping[str, str], kind: str) -> None:
        self._folder, self._key_path, self._kind = folder, folder / "key", kind
        self._key_text = environ.get(VARIABLE, "")

    def seal(self, name: str, value: str) -> str:
        """`value`, sealed under this name. Makes a key where there is none. Raises SecretStoreError."""
        if self._key_text:
            return _seal(AESGCM(parse_key(self._key_text, where=VARIABLE)), self._kind, name, value)
        try:
            private_folder(self._folder.parent)
            private_folder(self._folder)
        except StoreFolderError as error:
            raise SecretStoreError(str(error)) from None
        return _seal(AESGCM(load_or_make_key(self._key_path)), self._kind, name, value)

    def open(self, name: str, sealed: str) -> str:
        """What was sealed under this name. Raises SecretStoreError."""
        if not self._key_text and not self._key_path.exists():  # never create a new key for what is sealed
            raise WrongSecretsKeyError(f"the key is missing: set {VARIABLE} or restore {self._key_path}")
        key = parse_key(self._key_text, where=VARIABLE) if self._key_text else load_or_make_key(self._key_path)
        if (value := _unseal(AESGCM(key), self._kind, name, sealed)) is None:
            raise WrongSecretsKeyError(f"the {self._kind} {name!r} was sealed with another key, or was tampered with")
        return value


def _seal(cipher: AESGCM, kind: str, name: str, value: str) -> str:
    nonce = os.urandom(_NONCE_BYTES)
    return base64.b64encode(nonce + cipher.encrypt(nonce, value.encode(), _bound_to(kind, name))).decode()


def _unseal(cipher: AESGCM, kind: str, name: str, sealed: str) -> str | None:
    try:
        raw = base64.b64decode(sealed, validate=True)
        return cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], _bound_to(kind, name)).decode()
    except (InvalidTag, binascii.Error, ValueError):
        return None


def _bound_to(kind: str, name: str) -> bytes:
    return json.dumps(["moonpool-secret", _FORMAT, kind, name]).encode()
