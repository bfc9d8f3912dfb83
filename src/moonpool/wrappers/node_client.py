"""The client that generated JavaScript stands on, as text.

Its source is package data, so that it can be read, checked and tested as what it is. It goes into every tree, because a
module imports it by a path relative to itself (`../../client/mcp_client.js`).
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

_NAMES: Final = ("mcp_client.js", "mcp_client.d.ts")


@cache
def client_files() -> dict[str, str]:
    """Source text by file name. Constant: read once from this package's own data."""
    folder = files("moonpool.wrappers") / "client"
    return {name: (folder / name).read_text(encoding="utf-8") for name in _NAMES}
