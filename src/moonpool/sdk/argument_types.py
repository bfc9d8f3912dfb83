"""What an application gives where type checkers do not look: one clear error for a value of the wrong type."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, cast

from moonpool.core.errors import InputError

if TYPE_CHECKING:
    from types import UnionType


def must_be(value: object, kind: type | UnionType, name: str, what: str) -> None:
    """Raise InputError unless `value` is a `kind`; `what` says it in words. True and False are no numbers."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{name} must be {what}, not {type(value).__name__}")


def is_strings(value: object) -> bool:
    """Whether it is a list of strings or the like; a mapping is none, nor what can be read only once."""
    if isinstance(value, Mapping) or not isinstance(value, Collection):
        return False
    return all(isinstance(one, str) for one in cast("Collection[object]", value))
