"""Secrets that are looked for everywhere, in every form in which they usually travel."""

from __future__ import annotations

import base64
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable


def new_canary(kind: str) -> str:
    """With characters that every encoding changes."""
    return f"{kind}/{secrets.token_urlsafe(12)}+{secrets.token_hex(4)}&é"


def forms(secret: str) -> set[bytes]:
    """Written here once more, not taken from the redactor: raw, JSON, URL, hex and base64 at each alignment."""
    raw = secret.encode()
    found = {raw, quote(secret).encode(), quote(secret, safe="").encode(), raw.hex().encode()}
    found.add(secret.encode("unicode_escape").replace(b"\\xe9", b"\\u00e9"))
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            padded = encode(b"\0" * before + raw + b"\0" * 3)
            found.add(padded[4 if before else 0 : -4][: len(raw) * 4 // 3 - 6])
    return found


def leaks(texts: dict[str, bytes], canaries: Iterable[str]) -> list[str]:
    """Where a canary is: the place, and the beginning of the form that was found."""
    wanted = {form: canary for canary in canaries for form in forms(canary)}
    return [
        f"{place}: {canary[:6]} as {form[:8]!r} after {text[max(0, text.index(form) - 60) : text.index(form)]!r}"
        for place, text in texts.items()
        for form, canary in wanted.items()
        if form in text
    ]


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file's content, without what stands behind links (the shared environments)."""
    found: dict[str, bytes] = {}
    for top, _, names in os.walk(folder):  # which passes over a folder that goes meanwhile
        for path in (Path(top, name) for name in names):
            with suppress(FileNotFoundError):
                if path.is_file() and not path.is_symlink():
                    found[str(path)] = path.read_bytes()
    return found
