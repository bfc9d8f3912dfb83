"""The guest's `client` package is top-level in a sandbox; here, too. A recording bridge stands in for the channel."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

_CLIENT_PARENT = str(Path(__file__).resolve().parents[2] / "src" / "moonpool_guest" / "path")
if _CLIENT_PARENT not in sys.path:
    sys.path.append(_CLIENT_PARENT)


class Bridge:
    """Records calls and answers them with `reply`."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.reply: dict[str, Any] = text_reply("done")

    def invoke_sync(self, server_id: str, name: str, arguments: Any) -> dict[str, Any]:
        self.calls.append((server_id, name, arguments))
        return self.reply

    async def invoke(self, server_id: str, name: str, arguments: Any) -> dict[str, Any]:
        return self.invoke_sync(server_id, name, arguments)


def text_reply(text: str) -> dict[str, Any]:
    return {"ok": True, "data_from": "text", "raw": {"content": [{"type": "text", "text": text}]}}


@pytest.fixture
def bridge(monkeypatch: pytest.MonkeyPatch) -> Bridge:
    from client import mcp_client

    bridge = Bridge()
    monkeypatch.setattr(mcp_client, "toolcalls", bridge)
    return bridge
