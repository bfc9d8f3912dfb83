"""Names of files that cross the border, judged as text. Pure; both sides use it, each for itself.

A path of a sandbox is relative to `/workspace`, or absolute and below one of the places that code may write. A member
of an archive is relative and stays below the folder it is unpacked into. Nothing is repaired: a name that says `..` is
refused, not shortened, because whoever wrote it meant something.
"""

from typing import Final

from moonpool_wire.limits import FILE_DEPTH_MAX, FILE_NAME_BYTES_MAX, FILE_PATH_BYTES_MAX

PLACES: Final = ("/workspace", "/home/user", "/data", "/tmp")  # noqa: S108  inside the sandbox
"""Where files may be put and taken. `/workspace` is what relative paths start from."""
_SAME: Final = "/home/baponi"  # as `/workspace`


class NameFault(Exception):  # noqa: N818  a verdict on a name
    """A name cannot be used; the text says why and is safe to show."""


class OutsideFault(NameFault):
    """A path leads out of the places, or out of its archive."""


def split_place(path: str) -> tuple[str, str]:
    """The place and the path below it ("." is the place itself). Raises NameFault."""
    if not path.startswith("/"):
        return PLACES[0], "/".join(_parts(path)) or "."
    if path == _SAME or path.startswith(f"{_SAME}/"):
        path = PLACES[0] + path[len(_SAME) :]
    for place in PLACES:
        if path == place or path.startswith(f"{place}/"):
            return place, "/".join(_parts(path[len(place) :].lstrip("/"))) or "."
    raise OutsideFault(f"it is not below {', '.join(PLACES)}")


def member_parts(name: str) -> tuple[str, ...]:
    """The components of an archive member's name; () is the archive's own top folder. Raises NameFault."""
    if name.startswith("/"):
        raise OutsideFault("an absolute name")
    parts = _parts(name)
    if len(parts) > FILE_DEPTH_MAX:
        raise NameFault(f"more than {FILE_DEPTH_MAX} folders deep")
    return parts


def link_stays_inside(member: tuple[str, ...], target: str) -> bool:
    """Whether a symbolic link named `member` whose text is `target` points below the archive's top, read as text.

    A chain of links can still leave; whoever makes links looks again at what they lead to.
    """
    if not target or target.startswith("/") or "\0" in target:
        return False
    depth = len(member) - 1
    for part in target.split("/"):
        depth += -1 if part == ".." else 0 if part in {"", "."} else 1
        if depth < 0:
            return False
    return True


def _parts(path: str) -> tuple[str, ...]:
    if "\0" in path:
        raise NameFault("a NUL character in it")
    if len(path.encode("utf-8", "surrogateescape")) > FILE_PATH_BYTES_MAX:
        raise NameFault(f"longer than {FILE_PATH_BYTES_MAX} bytes")
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    if ".." in parts:
        raise OutsideFault("`..` in it")
    if len(path) * 4 > FILE_NAME_BYTES_MAX and any(
        len(part) * 4 > FILE_NAME_BYTES_MAX and len(part.encode("utf-8", "surrogateescape")) > FILE_NAME_BYTES_MAX
        for part in parts
    ):
        raise NameFault(f"a name of more than {FILE_NAME_BYTES_MAX} bytes in it")
    return parts
