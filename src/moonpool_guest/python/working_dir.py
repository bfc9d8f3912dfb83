"""ipybox's `working_dir`: after code that left it, the kernel is back in it, and the output says so."""

import os
from contextlib import suppress

_kept: "list[str]" = []  # at most one


def keep() -> None:
    """Let the current directory be the one that each execution begins in."""
    _kept[:] = [os.getcwd()]


def put_back() -> None:
    """An execution has ended: go back if it left."""
    for folder in _kept:
        current = ""
        with suppress(OSError):  # it was removed
            current = os.getcwd()
        if current != folder:
            with suppress(Exception):  # the folder is gone as well, or `print` is not what it was
                os.chdir(folder)
                print(f"[ipybox] cwd reset to {folder}")  # noqa: T201  part of the output
