"""What is wrong with an SQLite file of ours, and what to do about it, as the end of a sentence."""

from __future__ import annotations

import sqlite3


def sqlite_fault(error: Exception) -> str:
    """`is locked by another process; wait ...`: follows the name of the file. Its content can be made anew."""
    text = str(error)
    if not isinstance(error, sqlite3.Error):  # its text may hold a path with any words
        return f"cannot be used: {text}"
    if "locked" in text or "busy" in text:
        return "is locked by another process; wait until it is done, and try again"
    if "full" in text:
        return "cannot grow because the disk is full; free some space and try again"
    if "malformed" in text or "not a database" in text:
        return "is damaged; remove it, Moonpool then starts a new one"
    return f"cannot be used: {text}"
