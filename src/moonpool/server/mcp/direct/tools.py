"""The profile `direct` as transports serve it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moonpool.server.mcp.direct.served import Served
from moonpool.server.mcp.direct.server import build

if TYPE_CHECKING:
    from mcp.server import Server


class DirectTools(Served):
    """A profile with a server of its own (`server.mcp.server.OwnServer`)."""

    def make_server(self) -> Server[Any]:
        """The SDK's server, for one transport or several."""
        return build(self)
