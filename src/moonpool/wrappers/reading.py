"""Reads a definition without ever failing: unexpected ones get an untyped wrapper (H-040)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moonpool.wrappers.schema import read_tool, untyped_tool

if TYPE_CHECKING:
    from moonpool.core.manifest import ToolDefinition
    from moonpool.wrappers.ir import ToolShape

BEATEN: Final = (RecursionError, ValueError, TypeError, AttributeError, KeyError)
"""Errors that reading or rendering an unexpected definition may raise."""


def read_shape(tool: ToolDefinition) -> ToolShape:
    """`read_tool`, or the untyped shape if it fails."""
    try:
        return read_tool(tool)
    except BEATEN as error:
        return untyped_tool(tool, f"its schema could not be read ({type(error).__name__}); arguments are untyped")
