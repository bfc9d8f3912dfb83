"""Commands that convert only the values that need it.

typer converts every value, also one that was not given, by an adapter of pydantic's. Importing that and making the
adapters is a fifth of `moonpool run`, and no command needs pydantic for anything else before a server is started.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

if TYPE_CHECKING:
    from collections.abc import Callable


class PlainCommand(TyperCommand):
    """A command whose parameters are read so."""

    def get_params(self, ctx: Any) -> list[Any]:
        """See click."""
        return _plain(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """The same for a group, which has `--help` alone."""

    def get_params(self, ctx: Any) -> list[Any]:
        """See click."""
        return _plain(super().get_params(ctx))


class _Conversion:
    """What typer asks for a parameter's value."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def coerce(self, value: Any, param: TyperOption | TyperArgument, ctx: Any) -> Any:
        several = param.multiple or param.nargs != 1
        if value is None:
            return () if several else None
        wanted = param.type_descriptor.annotation
        if not several and isinstance(wanted, type) and isinstance(value, wanted):
            return value
        return self._make().coerce(value, param=param, ctx=ctx)


def _plain(parameters: list[Any]) -> list[Any]:
    for one in parameters:
        made = one.get_runtime_param
        if not isinstance(made, partial):  # asked for before
            one.get_runtime_param = partial(_Conversion, made)
    return parameters
