"""The client that generated JavaScript stands on, as text.

Its source is package data, so that it can be read, checked and tested as what it is. It goes into every tree, because a
module imports it by a path relative to itself (`../../client/mcp_client.js`). It is read once, with this module: a
constant like any other, so that rendering stays free of I/O.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

CLIENT_FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        name: (Path(__file__).parent / "client" / name).read_text(encoding="utf-8")
        for name in ("mcp_client.js", "mcp_client.d.ts")
    }
)
"""Source text by file name."""
