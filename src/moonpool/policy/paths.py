r"""Is a path below a folder? Decided by the string only: links on the server's disk are unknown here.

A folder written with a drive (`C:\data`, `\\host\share`) is read as on Windows, one written as `file:///...` takes URIs
of that form, any other is read as on POSIX. `.`, `..`, `//` and trailing separators are resolved first. A path that
servers may read in more than one way is UNREADABLE: a relative one against an absolute folder, one that leaves its
start, one with a scheme, a drive, `~`, percent escapes of separators or dots, control characters, blanks at its ends,
or letters that Unicode folds into separators.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from moonpool.policy.findings import Finding, UnreadableError, agreed, any_holds
from moonpool.policy.texts import check_escapes, has_lone_dots, is_plain

if TYPE_CHECKING:
    from collections.abc import Callable

PATH_CHARS_MAX: Final = 4096

_URI: Final = "file:///"
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ESCAPED = re.compile(r"%(?:2e|2f|5c|25|u[0-9a-f]{4})", re.IGNORECASE)
_ODD_ON_WINDOWS = re.compile(r"[. ]$|[:*?\"<>|]|~[0-9]")
_SEPARATOR = re.compile(r"[\\/]")


def folder_problem(folder: str) -> str:
    """Why `folder` cannot be used in a rule, or an empty string."""
    if not folder or len(folder) > PATH_CHARS_MAX:
        return f"a folder is a string of 1 to {PATH_CHARS_MAX} characters"
    try:
        plain = _path_of_uri(folder) if folder.startswith(_URI) else folder
    except UnreadableError:
        return f"write {_URI} and a plain folder, without ? and #"
    if _is_windows(plain):
        return "" if _windows(plain) is not None else "this is not a plain absolute Windows folder"
    if "\\" in plain:
        return 'write a folder with "/", or with a drive as on Windows'
    try:
        _check_plain(plain)
    except UnreadableError as exc:
        return f"write a plain folder: {exc}"
    if _SCHEME.match(plain) or plain.startswith("~"):
        return f"write a plain folder, without ~, and without a scheme other than {_URI}"
    return "" if _posix(plain) is not None else 'a relative folder must not climb out by ".."'


def below(folders: tuple[str, ...], path: str) -> Finding:
    """Is `path` one of the folders itself or something below one? Raises UnreadableError.

    The path is parsed once for all folders.
    """
    _check_plain(path)
    given = _Given(path)
    return any_holds(partial(given.below, folder) for folder in folders)


class _Given:
    """A path in every form in which servers may read it, compared with a folder in the same form."""

    def __init__(self, path: str) -> None:
        self._path = path

    def below(self, folder: str) -> bool:
        """Whether the path is below `folder`. Raises UnreadableError."""
        if folder.startswith(_URI):
            return self._of_uri.below(_path_of_uri(folder))
        if _is_windows(folder):
            return agreed(_below_on_windows(form(folder), path) for form, path in self._windows)
        return agreed(_below_on_posix(form(folder), path) for form, path in self._posix)

    @cached_property
    def _of_uri(self) -> _Given:
        return _Given(_path_of_uri(self._path))

    @cached_property
    def _read(self) -> list[tuple[Callable[[str], str], str]]:
        forms = _FORMS[:1] if is_plain(self._path) else _FORMS
        found = [(form, form(self._path)) for form in forms]
        if any(part != ".." and has_lone_dots(part) for _, path in found for part in _SEPARATOR.split(path)):
            raise UnreadableError('some programs read a ".." in it that others do not')
        return found

    @cached_property
    def _posix(self) -> list[tuple[Callable[[str], str], list[str]]]:
        return [(form, _posix_path(one)) for form, path in self._read for one in {path, path.replace("\\", "/")}]

    @cached_property
    def _windows(self) -> list[tuple[Callable[[str], str], list[str] | None]]:
        return [(form, _windows(path)) for form, path in self._read]


def _as_it_stands(path: str) -> str:
    return path


def _compatible(path: str) -> str:
    return unicodedata.normalize("NFKC", path)


def _decoded(path: str) -> str:
    return _compatible(unquote(_compatible(path)))


_FORMS: Final = (_as_it_stands, _compatible, _decoded)


def _below_on_posix(folder: str, given: list[str]) -> bool:
    root, *own = _posix_path(folder)
    if given[0] != root:
        raise UnreadableError(f"it is {'absolute' if root == '.' else 'relative'} and the folder is not")
    return given[1 : len(own) + 1] == own


def _below_on_windows(folder: str, given: list[str] | None) -> bool:
    own = _windows(folder)
    if own is None or given is None:
        raise UnreadableError("it is not a plain absolute Windows path")
    exact = given[: len(own)] == own
    folded = [part.casefold() for part in given[: len(own)]] == [part.casefold() for part in own]
    if exact is not folded:
        raise UnreadableError("whether its case counts depends on the disk")
    return exact


def _path_of_uri(uri: str) -> str:
    """Raises UnreadableError."""
    path = uri.removeprefix(_URI.removesuffix("/"))
    if not uri.startswith(_URI) or path.startswith("//") or "?" in path or "#" in path:
        raise UnreadableError(f"it is not a plain {_URI} URI")
    return path[1:] if _DRIVE.match(path, 1) else path


def _posix_path(path: str) -> list[str]:
    """The start (`/` or `.`), then the folders. Raises UnreadableError if the path is not plain."""
    if _SCHEME.match(path):
        raise UnreadableError("it has a scheme or a drive, and the folder has none")
    if path.startswith("~"):
        raise UnreadableError("it begins with ~")
    if (walked := _posix(path)) is None:
        raise UnreadableError("it climbs out of where it starts")
    return ["/" if path.startswith("/") else ".", *walked]


def _posix(path: str) -> list[str] | None:
    return _walked(path.split("/"), rooted=path.startswith("/"))


def _windows(path: str) -> list[str] | None:
    """Drive or share, then the folders; None if the path is not plainly absolute."""
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
    """`parts` without empty ones, `.` and `..`; None if a relative path leaves its start."""
    walked: list[str] = []
    for part in parts:
        if part == "..":
            if not walked and not rooted:
                return None
            walked = walked[:-1]
        elif part not in {"", "."}:
            walked.append(part)
    return walked


def _check_plain(path: str) -> None:
    """Raises UnreadableError."""
    if not 0 < len(path) <= PATH_CHARS_MAX:
        raise UnreadableError(f"it is empty or has more than {PATH_CHARS_MAX} characters")
    if path != path.strip():
        raise UnreadableError("it begins or ends with a blank")
    if any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in path):
        raise UnreadableError("it has a control character or an invisible one")
    if found := _ESCAPED.search(_compatible(path)):
        raise UnreadableError(f"it has the escape {found[0]}")
    check_escapes(_compatible(path))


def _is_windows(folder: str) -> bool:
    return bool(_DRIVE.match(folder)) or folder.startswith("\\\\")
