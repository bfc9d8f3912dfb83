"""`execute_code` with `preview`: the code is checked against the current tools; nothing is run, nobody is asked.

Analysing the largest code takes seconds, so it runs in a thread, one request at a time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moonpool.core.errors import InputError
from moonpool.core.languages import PYTHON
from moonpool.core.manifest import Manifest
from moonpool.features.preview.service import missing_servers, preview_code
from moonpool.server.mcp.answers import Answer, structured_answer

if TYPE_CHECKING:
    from moonpool.engine.code_request import CodeRequest
    from moonpool.engine.tool_registry import ToolRegistry


class Previews:
    """The previews of one connection."""

    def __init__(self, tool_registry: ToolRegistry, *, code_bytes_max: int) -> None:
        self._tool_registry, self._code_bytes_max = tool_registry, code_bytes_max
        self._turn = asyncio.Lock()

    async def answer(self, request: CodeRequest) -> Answer:
        """The calls and problems found in the code, as `data`. Raises InputError."""
        if len(request.code) > self._code_bytes_max:
            raise InputError(f"the code has {len(request.code):,} bytes; at most {self._code_bytes_max:,} are taken")
        manifest, missing = Manifest(), tuple[str, ...]()
        if request.language == PYTHON:
            snapshot = await self._tool_registry.snapshot()
            manifest, missing = snapshot.manifest, missing_servers(snapshot)
        async with self._turn:
            preview = await asyncio.to_thread(
                preview_code, request.code, manifest, language=request.language, missing=missing
            )
        if preview.not_read:
            raise InputError(preview.not_read)
        return structured_answer({"ok": True, "data": preview.to_json()})
