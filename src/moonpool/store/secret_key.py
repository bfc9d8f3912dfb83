"""The key of the secret store: from `MOONPOOL_SECRETS_KEY`, else from a file that is created at first use.

SECURITY: a key file that others may read or that belongs to somebody else is refused, not tightened: it may have been
read. The file is created atomically; of two processes that create it at once the first wins.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from moonpool.core.errors import Fault, MoonpoolError
from moonpool.store.private_files import sync_file, sync_folder

VARIABLE: Final = "MOONPOOL_SECRETS_KEY"
KEY_BYTES: Final = 32
_FILE_BYTES_MAX: Final = 4096


class SecretStoreError(MoonpoolError):
    """The secret store or its key cannot be used. Nothing was changed."""

    code = "secret_store_unusable"
    fault = Fault.HOST


def parse_key(text: str, *, where: str) -> bytes:
    """32 bytes from base64 (either alphabet, padded or not) or 64 hex digits. Errors never quote the key."""
    given = text.strip()
    try:
        if len(given) == 2 * KEY_BYTES:
            return bytes.fromhex(given)
        padded = given.rstrip("=") + "=" * (-len(given.rstrip("=")) % 4)
        key = base64.b64decode(padded.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise SecretStoreError(
            f"{where} is not a key: it must be {KEY_BYTES} random bytes as base64, as "
            f"`openssl rand -base64 {KEY_BYTES}` prints them"
        )
    return key


def load_or_make_key(
    path: Path,
    *,
    remedy: str = "Change the secrets where they came from, remove the file and the store beside it, "
    "and set them again",
) -> bytes:
    """The key in the file `path`; created if missing. The folder must be private. Raises SecretStoreError.

    `remedy`: what to do when somebody else may know it.
    """
    try:
        if not path.exists():
            _make(path)
        state = path.stat(follow_symlinks=False)
        if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or stat.S_IMODE(state.st_mode) & 0o077:
            raise SecretStoreError(
                f"{path} is not a file that only its owner, who runs this, may read; somebody else may know the key. "
                f"{remedy}"
            )
        return parse_key(path.read_text(encoding="ascii", errors="replace")[:_FILE_BYTES_MAX], where=str(path))
    except OSError as error:
        raise SecretStoreError(f"the key in {path} cannot be used: {error.strerror or error}") from None


def _make(path: Path) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp creates it with 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(base64.b64encode(os.urandom(KEY_BYTES)) + b"\n")
            sync_file(file)
        path.hardlink_to(name)
        sync_folder(path.parent)
    except FileExistsError:
        pass  # another process was faster; its key counts
    finally:
        Path(name).unlink(missing_ok=True)
