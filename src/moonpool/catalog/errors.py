"""Errors of the catalog. Each message is one sentence that says how to ask instead."""

from __future__ import annotations

from moonpool.core.errors import Fault, InputError, MoonpoolError


class CatalogQueryError(InputError):
    """An invalid search: empty, too long, a bad limit or a bad pattern."""

    code = "catalog_query_invalid"


class NotInCatalogError(MoonpoolError):
    """No such server or tool in this session's manifest. The message lists similar names."""

    code = "not_in_catalog"
    fault = Fault.CALLER

    def __init__(self, message: str, *, near: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.near = near
