"""Pictures that code showed, as files on the host."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from moonpool.sandboxes.folder_binding import open_without_links

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_SUFFIXES: Final = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}


def save_pictures(folder: Path, pictures: Iterable[tuple[str, bytes]]) -> list[Path]:
    """Write (mime, data) under new names; what is no picture is left out. Blocking. Raises OSError.

    SECURITY: code may write in that folder, so nothing of its path may be a link by now.
    """
    shown = [(f"{uuid4().hex}{_SUFFIXES[mime]}", data) for mime, data in pictures if mime in _SUFFIXES]
    if not shown:
        return []
    at = open_without_links(folder, make=True)
    try:
        for name, data in shown:
            fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=at)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
    finally:
        os.close(at)
    return [folder / name for name, _ in shown]
