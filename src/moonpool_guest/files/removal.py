"""Deleting: a file, an empty folder, or a folder with all that is in it."""

import os
import shutil
import stat

from moonpool_guest.files.exchange import Exchange
from moonpool_guest.files.places import located
from moonpool_guest.files.refusals import RefusedError


def delete(exchange: Exchange) -> None:
    """Remove what the path names; a link is removed, not what it leads to."""
    with located(str(exchange.head["path"])) as place:
        if place.is_root:
            raise RefusedError("inaccessible", "this folder belongs to the sandbox and cannot be removed")
        folder = place.open_folder(place.folder)
        try:
            remove(folder, place.name, recursive=bool(exchange.head["recursive"]))
        finally:
            os.close(folder)
    exchange.done(entries=1)


def remove(folder: int, name: str, *, recursive: bool) -> None:
    """Remove `name` in `folder`. Raises RefusedError, OSError."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=folder)
    elif recursive:
        try:
            shutil.rmtree(name, dir_fd=folder)
        except RecursionError:
            raise RefusedError("failed", "it is too deep; remove it with code, e.g. `rm -r`") from None
    else:
        os.rmdir(name, dir_fd=folder)
