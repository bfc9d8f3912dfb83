"""Errors of the catalog. Each message is one sentence that says what to ask instead."""

from __future__ import annotations

from moonpool.core.errors import Fault, InputError, MoonpoolError


class CatalogQueryError(InputError):
    """A search cannot be answered as it was asked: empty, too long, a bad limit or a bad pattern."""

    code = "catalog_query_invalid"


class NotInCatalogError(MoonpoolError):
    """No such server or tool in this session's manifest. The message offers the nearest names."""

    code = "not_in_catalog"
    fault = Fault.CALLER

    def __init__(self, message: str, *, near: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.near = near
