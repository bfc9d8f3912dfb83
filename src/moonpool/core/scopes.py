"""What a credential of the service may do, whatever kind it is of: a key, a token of an issuer. Pure."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

Scope: TypeAlias = Literal["execute", "files", "approve", "admin"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
DEFAULT_SCOPES: Final[tuple[Scope, ...]] = ("execute", "files")
"""Of a key that is made without any, and what a client without a token is told to ask for."""
