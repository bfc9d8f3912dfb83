"""The list before the contents, both ways: `moonpool_wire.messages` describes it.

SECURITY: what a guest sends is typed and bounded here, before anything is made of it: names are paths below the place,
each once, few folders are above them, nothing stands below what is no folder, sizes are within what the sandbox may
hold, and only what was brought in can be said to be removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec import Meta

from moonpool.core.errors import InputError
from moonpool.features.storage.model import FILE_BYTES_MAX, checked_path, folders_above
from moonpool_wire.jsonbounds import exceeded_bound
from moonpool_wire.limits import FILE_PATH_BYTES_MAX, TREE_ENTRIES_MAX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from moonpool.features.storage.model import Entry

LENGTH_BYTES: Final = 4
_Path = Annotated[str, Meta(min_length=1, max_length=FILE_PATH_BYTES_MAX)]
_Target = Annotated[str, Meta(min_length=1, max_length=FILE_PATH_BYTES_MAX)]


class Listed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One entry. `last` is a file's size, a link's target, and nothing of a folder."""

    kind: Literal["file", "folder", "link"]
    path: _Path
    mode: Annotated[int, Meta(ge=0, le=0o777)]
    modified_ns: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    last: Annotated[int, Meta(ge=0, le=FILE_BYTES_MAX)] | _Target

    @property
    def size(self) -> int:
        """Of a file."""
        return self.last if isinstance(self.last, int) else 0


class Changes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a guest says has changed."""

    put: Annotated[list[Listed], Meta(max_length=TREE_ENTRIES_MAX)]
    removed: Annotated[list[_Path], Meta(max_length=TREE_ENTRIES_MAX)]


class DishonestGuestError(Exception):
    """What a guest says cannot be so."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Changes).decode


def encoded(entries: Iterable[Entry]) -> bytes:
    """The list of what is brought in, with its length."""
    rows = _encode([
        Listed(one.kind, one.path, one.mode, one.modified_ns, one.target if one.kind == "link" else one.size)
        for one in entries
    ])  # fmt: skip
    return len(rows).to_bytes(LENGTH_BYTES, "big") + rows


def read_changes(listed: bytes, *, brought: Collection[str], bytes_max: int) -> Changes:
    """The list of a guest to whose folder the paths `brought` were brought. Raises DishonestGuestError."""
    if (bound := exceeded_bound(listed, depth_max=4, containers_max=TREE_ENTRIES_MAX + 3)) is not None:
        raise DishonestGuestError(f"its list of changes has {bound}")
    try:
        changes = _decode(listed)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise DishonestGuestError("its list of changes is none") from None
    _check_put(changes.put, bytes_max)
    if len(set(changes.removed)) != len(changes.removed) or not all(path in brought for path in changes.removed):
        raise DishonestGuestError("it says that something is gone that was never there")
    return changes


def _check_put(put: Sequence[Listed], bytes_max: int) -> None:
    kinds = {one.path: one.kind for one in put}
    if len(kinds) != len(put):
        raise DishonestGuestError("it names a file twice")
    for one in put:
        if isinstance(one.last, str) is not (one.kind == "link") or (one.kind == "folder" and one.last):
            raise DishonestGuestError("it says what no such entry has")
        try:
            if checked_path(one.path) != one.path:
                raise DishonestGuestError("a path of its list is not plain")
        except InputError:
            raise DishonestGuestError("a path of its list leads out of the folder, or cannot be used") from None
        if "\0" in str(one.last):
            raise DishonestGuestError("a link of its list cannot be")
    above = folders_above(kinds, TREE_ENTRIES_MAX)
    if above is None:
        raise DishonestGuestError("it names more folders than there may be")
    if any(kinds.get(path, "folder") != "folder" for path in above):
        raise DishonestGuestError("it names something below what is no folder")
    if sum(one.size for one in put) > bytes_max:
        raise DishonestGuestError(f"its list is of more than {bytes_max:,} bytes")
