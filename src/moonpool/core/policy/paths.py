r"""Is a path below a folder? By its letters only: links on the server's disk cannot be known here.

A folder written with a drive (`C:\data`, `\\host\share`) is read as on Windows, any other as on POSIX. `.`, `..`, `//`
and closing separators are worked off first. A path that servers may read in more than one way is UNREADABLE: a relative
one against an absolute folder, one that climbs out of where it starts, one with a scheme, a drive, `~`, percent escapes
of separators or dots, control characters, blanks at its ends, or letters that Unicode folds into separators.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from moonpool.core.policy.findings import Finding, agreed, any_holds, held

PATH_CHARS_MAX: Final = 4096

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ESCAPED = re.compile(r"%(?:2e|2f|5c|00|25)", re.IGNORECASE)
_ODD_ON_WINDOWS = re.compile(r"[. ]$|[:*?\"<>|]|~[0-9]")


def folder_problem(folder: str) -> str:
    """Why `folder` cannot be used in a rule, or nothing."""
    if not folder or len(folder) > PATH_CHARS_MAX:
        return f"a folder is a text of 1 to {PATH_CHARS_MAX} characters"
    if _is_windows(folder):
        return "" if _windows(folder) is not None else "this is not a plain absolute folder of Windows"
    if "\\" in folder:
        return 'write a folder with "/", or with a drive as on Windows'
    if not _plain(folder) or _SCHEME.match(folder) or folder.startswith("~"):
        return "write a plain folder, without scheme, ~, percent escapes or blanks at its ends"
    return "" if _posix(folder) is not None else 'a relative folder must not climb out by ".."'


def below(folders: tuple[str, ...], path: str) -> Finding:
    """Is `path` one of the folders itself or something below one? The path is read once, however many there are."""
    if not _plain(path):
        return Finding.UNREADABLE
    readings = {path, unicodedata.normalize("NFKC", path)}
    on_posix = [_posix_path(one) for one in readings | {one.replace("\\", "/") for one in readings}]
    on_windows = [_windows(one) for one in readings]
    return any_holds(
        agreed(_below_on_windows(folder, one) for one in on_windows)
        if _is_windows(folder)
        else agreed(_below_on_posix(folder, one) for one in on_posix)
        for folder in folders
    )


def _below_on_posix(folder: str, given: list[str] | None) -> Finding:
    own = _posix(folder)
    if own is None or given is None or folder.startswith("/") is not (given[0] == "/"):
        return Finding.UNREADABLE
    return held(given[1 : len(own) + 1] == own)


def _below_on_windows(folder: str, given: list[str] | None) -> Finding:
    own = _windows(folder)
    if own is None or given is None:
        return Finding.UNREADABLE
    exact = given[: len(own)] == own
    # Whether case counts depends on the disk.
    folded = [part.casefold() for part in given[: len(own)]] == [part.casefold() for part in own]
    return held(exact) if exact is folded else Finding.UNREADABLE


def _posix_path(path: str) -> list[str] | None:
    """Where it starts (`/` or `.`), then the folders; None for what is no plain path."""
    if _SCHEME.match(path) or path.startswith("~") or (walked := _posix(path)) is None:
        return None
    return ["/" if path.startswith("/") else ".", *walked]


def _posix(path: str) -> list[str] | None:
    return _walked(path.split("/"), rooted=path.startswith("/"))


def _windows(path: str) -> list[str] | None:
    """Drive or share, then the folders; None for what is not plainly absolute."""
    parts = path.replace("/", "\\").split("\\")
    if _DRIVE.match(path):
        root, rest = [parts[0]], parts[1:]
    elif parts[:2] == ["", ""] and len(parts) >= 4 and parts[2] not in {"", ".", "?"} and parts[3]:
        root, rest = ["", *parts[2:4]], parts[4:]
    else:
        return None
    if any(_ODD_ON_WINDOWS.search(part) for part in rest if part not in {".", ".."}):
        return None
    walked = _walked(rest, rooted=True)
    return None if walked is None else [*root, *walked]


def _walked(parts: list[str], *, rooted: bool) -> list[str] | None:
    """`parts` without empty ones, `.` and `..`; None when a relative path climbs out of where it starts."""
    walked: list[str] = []
    for part in parts:
        if part == "..":
            if not walked and not rooted:
                return None
            walked = walked[:-1]
        elif part not in {"", "."}:
            walked.append(part)
    return walked


def _plain(path: str) -> bool:
    return (
        0 < len(path) <= PATH_CHARS_MAX
        and path == path.strip()
        and not any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in path)
        and not _ESCAPED.search(path)
    )


def _is_windows(folder: str) -> bool:
    return bool(_DRIVE.match(folder)) or folder.startswith("\\\\")
